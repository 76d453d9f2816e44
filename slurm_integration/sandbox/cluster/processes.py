"""Starting, recognising and ending the processes of one sandbox.

A process is ended only if it is provably of this sandbox: its environment carries our mark (the
daemons and what they fork), it is a child of one that does, Slurm started it on one of this
sandbox's nodes, or it is the slurmstepd above such a one. Pids are used together with their start
times, so a reused one is never hit.
"""

import contextlib
import os
import signal
import subprocess  # noqa: TID251 - the sandbox starts daemons
import time
from pathlib import Path
from typing import NamedTuple

MARK = "FLIGHTCHECK_SANDBOX"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Process(NamedTuple):
    """A process and what tells it from a later one with the same pid."""

    pid: int
    started: int
    parent: int


def start(argv: list[str], state: str, output: str) -> "subprocess.Popen[bytes]":
    """Start a daemon in the foreground of its own session, marked as this sandbox's."""
    with open(output, "ab") as log:
        return subprocess.Popen(  # noqa: S603 - a list, no shell, fixed environment
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={
                "PATH": _PATH,
                "LC_ALL": "C",
                "SLURM_CONF": f"{state}/etc/slurm.conf",
                MARK: state,
            },
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )


def find(state: str) -> list[Process]:
    """All living processes of the sandbox, but never the caller or its ancestors."""
    everyone = {
        process.pid: process
        for entry in os.listdir("/proc")
        if entry.isdigit() and (process := _stat(int(entry))) is not None
    }
    safe = _ancestors(os.getpid(), everyone)
    chosen = {pid for pid in everyone if pid not in safe and _belongs(pid, state)}
    grown = True
    while grown:
        children = {p.pid for p in everyone.values() if p.parent in chosen} - safe
        grown = not children <= chosen
        chosen |= children
    # From 23.11 on slurmstepd writes its name over its environment, and its parent is init.
    parents = {everyone[pid].parent for pid in chosen} & everyone.keys() - chosen - safe
    chosen |= {pid for pid in parents if _command(pid).startswith(b"slurmstepd")}
    return [everyone[pid] for pid in sorted(chosen)]


def end(state: str, patience_s: float = 1.0) -> int:
    """End them all: first kindly, after `patience_s` for certain. Returns how many were found.

    Raises TimeoutError where some still live after SIGKILL (asleep in the kernel).
    """
    seen: set[Process] = set()
    began = time.monotonic()
    while living := {p for p in find(state) if _alive(p)} | {p for p in seen if _alive(p)}:
        waited = time.monotonic() - began
        if waited > patience_s + 5:
            raise TimeoutError(f"processes {sorted(p.pid for p in living)} can't be ended")
        late = waited > patience_s
        for process in living:
            if late or process not in seen:
                _signal(process, signal.SIGKILL if late else signal.SIGTERM)
        seen |= living
        time.sleep(0.03)
    return len(seen)


def _signal(process: Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)


def _alive(process: Process) -> bool:
    # A daemon that this very process started stays a zombie until it is waited for.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    now = _stat(process.pid)
    return now is not None and now.started == process.started


def _stat(pid: int) -> Process | None:
    """None for a process that is gone, or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    return Process(pid, int(fields[19]), int(fields[1]))


def _ancestors(pid: int, everyone: dict[int, Process]) -> set[int]:
    found = {pid}
    while (process := everyone.get(pid)) is not None and process.parent not in found:
        pid = process.parent
        found.add(pid)
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _belongs(pid: int, state: str) -> bool:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    if f"{MARK}={state}".encode() in entries:
        return True
    # SLURM_CONF alone is what an operator's shell has; the node's name is set by slurmd only.
    on_a_node = any(entry.startswith(b"SLURMD_NODENAME=") for entry in entries)
    return on_a_node and f"SLURM_CONF={state}/etc/slurm.conf".encode() in entries
