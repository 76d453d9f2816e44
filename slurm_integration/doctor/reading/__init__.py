"""What the doctor reads: of Slurm, of its hooks, of our own installation, of this node."""
