"""Ways to a node: srun, ssh, local. One contract (base.py), one framing of answers (framing.py)."""
