"""Which programs of ours a script calls."""

import glob
import os
import re
import shutil

from slurm_integration.doctor.model import Program
from slurm_integration.doctor.reading.files import head

NAMES = ("flightcheck-prolog", "flightcheck-epilog", "flightcheck-task-prolog",
         "flightcheck-health", "flightcheck")  # fmt: skip
MODULES = {
    "prolog.main": "flightcheck-prolog",
    "epilog.main": "flightcheck-epilog",
    "prolog.task": "flightcheck-task-prolog",
    "slurm_integration.health.main": "flightcheck-health",
    "healthcheck.main": "flightcheck",
}
"""`python -m` of these is the same as the command."""
MAX_FOLLOWED = 32
_NAME = "|".join(NAMES)
_END = r"(?![\w./-])"
_ABSOLUTE = re.compile(rf"(?<![\w.+@-])((?:/[\w.+@-]+)*/)({_NAME}){_END}")
_BARE = re.compile(rf"(?:^|[;&|(]|\b(?:exec|then|else|do|if)\s)\s*({_NAME}){_END}", re.MULTILINE)
_MODULE = re.compile(rf"((?:/[\w.+@-]+)*/python[\d.]*)\s[^\n;|&]*-m\s*({'|'.join(MODULES)}){_END}")
_ASSIGNED = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=", re.MULTILINE)
_PATH = re.compile(r"^\s*(?:export\s+)?PATH=[\"']?([\w/.:+@-]*)", re.MULTILINE)
_OTHER = re.compile(r"(?<![\w.+@$}-])(/[\w./+@*?-]+)")


def called(text: str, path: str, *, deep: bool = True) -> tuple[Program, ...]:
    """The programs of ours in a script, and in those that it names in turn (one step)."""
    code = uncommented(text)
    found: dict[tuple[str, str], Program] = {}
    for folder, name in _ABSOLUTE.findall(code):
        _add(found, name, folder + name, folder + name)
    for python, module in _MODULE.findall(code):
        _add(found, MODULES[module], python, python)
    searched = ":".join(_PATH.findall(code))
    for name in _BARE.findall(code):
        _add(found, name, name, shutil.which(name, path=searched or os.devnull) or "")
    if deep:
        for other in _followed(code, path):
            for program in called(_text(other), other, deep=False):
                found.setdefault((program.name, program.written), program)
    return tuple(found.values())


def assigned(text: str, path: str) -> frozenset[str]:
    """The variables that a shell script sets, or one of those that it names."""
    code = uncommented(text)
    texts = (code, *(uncommented(_text(other)) for other in _followed(code, path)))
    return frozenset(name for one in texts for name in _ASSIGNED.findall(one))


def uncommented(text: str) -> str:
    """The script without the lines that are comments; `#!` is one too."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _add(found: dict[tuple[str, str], Program], name: str, written: str, path: str) -> None:
    runs = bool(path) and os.path.isfile(path) and os.access(path, os.X_OK)
    found.setdefault((name, written), Program(name, written, path, runs))


def _followed(code: str, path: str) -> list[str]:
    """Scripts that this one names: a driver that runs all of /etc/slurm/prolog.d, say."""
    files: dict[str, None] = {}
    for pattern in _OTHER.findall(code)[:256]:
        for one in _expanded(pattern):
            if one != path and len(files) < MAX_FOLLOWED and _text(one).startswith("#!"):
                files[one] = None
    return list(files)


def _expanded(pattern: str) -> list[str]:
    if os.path.isdir(pattern):
        pattern = pattern.rstrip("/") + "/*" if pattern.rstrip("/").endswith(".d") else ""
    if not set(pattern) & set("*?"):
        return [pattern] if pattern else []
    # Two levels of stars at most: `/*/*/*` would walk the machine.
    return sorted(glob.glob(pattern))[:MAX_FOLLOWED] if pattern.count("*") <= 1 else []


def _text(path: str) -> str:
    try:
        data = head(path)
    except OSError:
        return ""
    return "" if b"\0" in data else data.decode("utf-8", "replace")
