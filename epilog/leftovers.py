"""Processes that a job left behind: found on its GPUs and in its cgroup, ended where configured.

Only those of the job's own user, never root's, and each is named by a handle (pidfd) that is
taken before it is looked at, so that a number given out anew cannot hit somebody else.
"""

import os
import re
import signal
from collections.abc import Iterable

from healthcheck.model import Snapshot

MOST = 4096
_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)


def on_gpus(node: Snapshot, uid: int) -> list[int]:
    """Processes of `uid` that hold memory on GPUs that the job owns."""
    return sorted(
        {p.pid for gpu in node.owned_gpus() for p in gpu.processes or () if p.uid in (uid, None)}
    )


def in_cgroup(job_id: int, proc: str = "/proc") -> list[int]:
    """Processes in the job's cgroup (slurm/uid_N/job_N in v1, …/slurmstepd.scope/job_N in v2)."""
    found = []
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdecimal())[-MOST * 16 :]:
        try:
            with open(f"{proc}/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
                text = file.read(8192)
        except OSError:
            continue
        if any(int(n) == job_id for n in _JOB.findall(text)):
            found.append(pid)
    return found


def end(pids: Iterable[int], uid: int) -> tuple[list[int], list[str]]:
    """Kill those of `pids` that belong to `uid`; which, and notes on those left alone."""
    if uid == 0:
        return [], ["leftover processes of root are never ended"]
    ended, notes = [], []
    for pid in list(pids)[:MOST]:
        if pid <= 1 or pid == os.getpid():
            continue
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue  # gone already
        try:
            owner = os.stat(f"/proc/{pid}").st_uid
            if owner != uid:
                notes.append(f"process {pid} is left alone: it belongs to uid {owner}, not {uid}")
                continue
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            ended.append(pid)
        except OSError:
            continue
        finally:
            os.close(handle)
    return ended, notes
