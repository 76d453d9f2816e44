"""The scripts that slurm.conf names, as they lie on this node."""

import glob
import os
import stat

import msgspec

from slurm_integration.doctor.model import Hook, Program, Script
from slurm_integration.doctor.reading import programs
from slurm_integration.doctor.reading.files import closed, head, loose
from slurm_integration.doctor.slurm_conf import SlurmConf

NAMES = ("Prolog", "Epilog", "TaskProlog", "HealthCheckProgram")
_GLOBBED = ("Prolog", "Epilog")
"""The entries in which Slurm expands a pattern."""
MAX_SCRIPTS = 100


def read_hooks(slurm: SlurmConf, root: str = "") -> tuple[Hook, ...]:
    """Every hook that is set; each value of one that is set several times.

    `root`: a folder that stands for the machine. What is read lies below it, paths are told
    without it.
    """
    return tuple(
        _hook(name, value, os.path.dirname(slurm.path.removeprefix(root)), root)
        for name in NAMES
        for value in slurm.all(name)
    )


def _hook(name: str, value: str, folder: str, root: str) -> Hook:
    # From 23.11 on a relative name is looked for beside slurm.conf.
    pattern = value if value.startswith("/") else os.path.join(folder, value)
    globbed = name in _GLOBBED and bool(set(pattern) & set("*?["))
    paths = [f"{root}{pattern}"]
    if globbed:
        paths = sorted(glob.glob(f"{glob.escape(root)}{pattern}"))[:MAX_SCRIPTS]
    scripts = (read_script(path) for path in paths)
    told = (msgspec.structs.replace(one, path=one.path.removeprefix(root)) for one in scripts)
    return Hook(name, pattern, globbed, tuple(told))


def read_script(path: str) -> Script:
    """One script. Never raises: what can't be read is said in `problem`."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        data = head(path)
    except FileNotFoundError:
        lost = os.path.islink(path)
        return Script(path, f"a link to nothing ({os.readlink(path)})" if lost else "not there")
    except OSError as error:
        return Script(path, error.strerror or str(error))
    if b"\0" in data:
        return Script(path, mode=mode, binary=True, loose=loose(path), closed=closed(path))
    text = data.decode("utf-8", "replace")
    first = text.partition("\n")[0]
    return Script(
        path,
        mode=mode,
        first_line=first,
        interpreter_missing=_missing(first),
        loose=loose(path),
        closed=closed(path),
        sets=programs.assigned(text, path),
        programs=programs.called(text, path) or _itself(path),
    )


def _missing(first: str) -> str:
    """The interpreter of a `#!` line, where it is not there; the carriage return stays on it."""
    if not first.startswith("#!"):
        return ""
    name = first[2:].lstrip(" \t").split(" ")[0].split("\t")[0]
    return "" if name and os.access(name, os.X_OK) else name or "(none)"


def _itself(path: str) -> tuple[Program, ...]:
    name = os.path.basename(os.path.realpath(path))
    if name not in programs.NAMES:
        return ()
    return (Program(name, path, path, os.access(path, os.X_OK)),)
