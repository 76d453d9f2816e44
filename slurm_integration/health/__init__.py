"""`flightcheck-health`: Slurm's HealthCheckProgram. What happens to a node while nobody looks."""
