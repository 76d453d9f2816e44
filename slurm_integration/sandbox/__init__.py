"""A real Slurm cluster on one machine, its nodes' hardware simulated."""
