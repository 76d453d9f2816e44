"""`flightcheck doctor`: what of Slurm's configuration and of this node does not fit.

Readers (`reading/`) collect facts, rules (`rules/`) are pure and say what is wrong, why it matters
and which line mends it.
"""
