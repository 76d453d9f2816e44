"""Reads what the site has: Slurm's hooks, our own commands, the SPANK plugin."""

import os
import sys

from healthcheck.config import load_config
from slurm_integration.doctor.gather import read_slurm
from slurm_integration.doctor.reading.hooks import read_hooks
from slurm_integration.doctor.reading.installation import prefix_of
from slurm_integration.doctor.reading.slurm_files import includes
from slurm_integration.doctor.slurm_conf import SlurmConf
from slurm_integration.install.layout import Site
from slurm_integration.install.model import InstallError
from slurm_integration.scontrol import FOLDERS

PLUGIN = "flightcheck.so"


def known_slurm(prefix: str, slurm_conf: str | None, root: str) -> tuple[SlurmConf | None, str]:
    """(Slurm's configuration, why there is none).

    The file that is named, else the one at the prefix; else, on this machine itself, what scontrol
    shows: the configuration of a cluster without files.
    """
    path = slurm_conf or f"{root}{prefix}/slurm.conf"
    if slurm_conf or os.path.exists(path):
        return read_slurm("", path)
    if root:
        return None, f"{path}: not there"
    slurm, trouble = read_slurm("", None)
    return slurm, trouble and f"{path} is not there, and {trouble}"


def no_slurm() -> bool:
    """Whether this machine has no scontrol at all."""
    return not any(os.access(f"{folder}/scontrol", os.X_OK) for folder in FOLDERS)


def read_site(
    prefix: str, bin_dir: str, spank: str, slurm: SlurmConf | None, root: str = ""
) -> Site:
    """Where things are. Raises InstallError for a path that can't be used."""
    folder = bin_dir or os.path.dirname(sys.executable)
    config, _, _ = load_config(f"{root}/etc/flightcheck/flightcheck.toml")
    plugstack = (slurm.text("PlugStackConfig") if slurm else "") or f"{prefix}/plugstack.conf"
    site = Site(
        prefix=prefix,
        bin=folder,
        python=interpreter_of(folder),
        state_dir=config.state_dir,
        hooks=read_hooks(slurm, root) if slurm else None,
        plugin=spank or _plugin(slurm, folder),
        includes=tuple(pattern.removeprefix(root) for pattern in includes(f"{root}{plugstack}")),
    )
    for what, path in (
        ("--bin", site.bin),
        ("--spank", site.plugin),
        ("state_dir", site.state_dir),
    ):
        _check(what, path)
    return site


def interpreter_of(folder: str) -> str:
    """The Python that our commands in a folder run in; a link in /usr/bin leads to a venv."""
    found = prefix_of(f"{folder}/flightcheck-prolog")
    return f"{found}/bin/python3" if found else f"{folder}/python3"


def _plugin(slurm: SlurmConf | None, folder: str) -> str:
    """The SPANK plugin, where it is on this machine."""
    places = slurm.text("PluginDir").split(":") if slurm else []
    places += [os.path.join(os.path.dirname(folder), "lib"), "/usr/lib/flightcheck"]
    files = (os.path.join(place, PLUGIN) for place in places if place.startswith("/"))
    return next((file for file in files if os.path.isfile(file)), "")


def _check(what: str, path: str) -> None:
    if path and (not path.startswith("/") or any(c.isspace() or not c.isprintable() for c in path)):
        raise InstallError(f"{what}: expected an absolute path without spaces, found {path!r}")
