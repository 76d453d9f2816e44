"""Which flightchecks are on this machine, and what state ours is in."""

import glob
import importlib.util
import os
import re
import sys
import time

import healthcheck
from healthcheck.command import run_command
from slurm_integration.doctor.model import Hook, Installation, Interpreter
from slurm_integration.doctor.reading import programs
from slurm_integration.doctor.reading.files import head

PACKAGES = ("healthcheck", "prolog", "epilog", "slurm_integration")
START_TIMEOUT_S = 10
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/flightcheck/bin"


def read_installations(hooks: tuple[Hook, ...], path: str) -> tuple[Installation, ...]:
    """Ours, those that scripts lead to, and those in PATH and the usual folders."""
    seen: dict[str, list[str]] = {sys.prefix: ["this command"]}
    for hook in hooks:
        for script in hook.scripts:
            for program in script.programs:
                if program.runs:
                    _note(seen, program.path, hook.name)
    for folder in dict.fromkeys(f"{path}:{_PLACES}".split(":")):
        program_path = f"{folder}/flightcheck"
        if folder.startswith("/") and os.access(program_path, os.X_OK):
            _note(seen, program_path, program_path)
    return tuple(
        Installation(prefix, _version(prefix), tuple(dict.fromkeys(by)))
        for prefix, by in seen.items()
    )


def _note(seen: dict[str, list[str]], program: str, by: str) -> None:
    prefix = prefix_of(program)
    if not prefix:
        return
    for known, leading in seen.items():
        if os.path.realpath(known) == os.path.realpath(prefix):
            leading.append(by)
            return
    seen[prefix] = [by]


def prefix_of(program: str, *, deep: bool = True) -> str:
    """The prefix (`/opt/flightcheck`) that a command of ours runs in; "" where that is unknown.

    The venv's interpreter in its first line says so; a shell wrapper is followed once.
    """
    if os.path.basename(program).startswith("python"):
        return os.path.dirname(os.path.dirname(program))
    try:
        text = head(program).decode("utf-8", "replace")
    except OSError:
        return ""
    found = re.search(r"(/[^\s'\"]*)/bin/python[\d.]*", "\n".join(text.splitlines()[:2]))
    if found:
        return found[1]
    if deep:
        for one in programs.called(text, program, deep=False):
            if one.runs and one.path != program:
                return prefix_of(one.path, deep=False)
    return ""


def _version(prefix: str) -> str:
    for path in glob.glob(f"{prefix}/lib/python3*/site-packages/flightcheck-*.dist-info"):
        return os.path.basename(path).removeprefix("flightcheck-").removesuffix(".dist-info")
    return ""


def read_interpreter() -> Interpreter:
    """Our Python: does it start, how fast (the best of three), and are our modules compiled."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(healthcheck.__file__)))
    modules = [
        path
        for package in PACKAGES
        for path in glob.glob(f"{folder}/{package}/**/*.py", recursive=True)
    ]
    stale = sum(not _compiled(path) for path in modules)
    found = Interpreter(sys.executable, None, uncompiled=stale, modules=len(modules), folder=folder)
    best = None
    for _ in range(3):
        began = time.monotonic()
        try:
            done = run_command([sys.executable, "-I", "-c", "import msgspec"], START_TIMEOUT_S)
        except OSError as error:
            return _broken(found, f"can't be started: {error.strerror}")
        if done.code != 0:
            told = done.stderr.strip().splitlines()[-1:] or ["no message"]
            how = f"exit code {done.code}" if done.code is not None else "timed out"
            return _broken(found, f"does not start ({how}): {told[0][:200]}")
        took = time.monotonic() - began
        best = took if best is None else min(best, took)
    return Interpreter(found.path, best, "", stale, len(modules), folder)


def _broken(found: Interpreter, problem: str) -> Interpreter:
    return Interpreter(found.path, None, problem, found.uncompiled, found.modules, found.folder)


def _compiled(path: str) -> bool:
    """Whether a module has a .pyc that this Python will use. Its header: PEP 552."""
    try:
        with open(importlib.util.cache_from_source(path), "rb") as file:
            header = file.read(16)
        state = os.stat(path)
    except OSError:
        return False
    if len(header) < 16 or header[:4] != importlib.util.MAGIC_NUMBER:
        return False
    flags, stamp, size = (int.from_bytes(header[at : at + 4], "little") for at in (4, 8, 12))
    if flags:
        return True  # judged by its contents, or not at all
    return stamp == int(state.st_mtime) & 0xFFFFFFFF and size == state.st_size & 0xFFFFFFFF
