"""`flightcheck install` and `uninstall`: the site's side of an installation.

`layout` and `render` say what should lie where (jinja2 templates), `plan` compares that with the
disk and the manifest, `apply` and `remove` carry it out. slurm.conf is never edited: `lines` says
what to add to it.
"""
