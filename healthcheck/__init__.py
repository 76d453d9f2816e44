"""The domain: what a healthy node is, how it is read and how it is judged.

Nothing here knows Slurm; the other three packages build on this one.
"""

__version__ = "0.1.0"
