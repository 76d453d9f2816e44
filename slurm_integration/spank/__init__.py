"""The SPANK plugin (C): `--preflight` for sbatch, srun and salloc, and the record of task exits.

`make spank` builds it against the site's own Slurm headers: a plugin built for one release is
refused by another.
"""
