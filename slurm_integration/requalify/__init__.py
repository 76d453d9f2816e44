"""Drained nodes come back by proof: clean passes spread over a time, and nothing else."""
