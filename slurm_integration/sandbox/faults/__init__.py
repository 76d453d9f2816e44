"""Faults of simulated machines, one file a subject; `registry` finds and declares them."""
