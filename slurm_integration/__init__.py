"""The only door to Slurm."""
