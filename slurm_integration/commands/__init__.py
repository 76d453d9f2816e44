"""Commands of `flightcheck` that talk to Slurm. Each is imported only when it is called."""
