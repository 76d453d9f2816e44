"""The record of task exits that the SPANK plugin keeps on each node: when each rank ended, and how.

Root's own file in root's own folder, which makes it a fact where srun's words in a log are hearsay.
One line a task: `1 STEP RANK LOCAL PID STATUS SECONDS.NANOSECONDS`, STATUS as from wait(2).
"""

import os
import re
import stat
from collections.abc import Iterable

from epilog.model import TaskExit

MAX_BYTES = 8 << 20
SHARED = "task-exits"
"""In the folder that all nodes see: what the job's other nodes recorded."""
_LINE = re.compile(
    r"1 (\d{1,10}) (\d{1,10}) (-?\d{1,10}) (\d{1,10}) (\d{1,10}) (\d{1,12}\.\d{9})\Z"
)
_NAME = re.compile(r"(\d{1,10})\.([A-Za-z0-9._-]{1,255})\Z")


def read_record(folder: str, job_id: int, node: str) -> tuple[TaskExit, ...]:
    """How the tasks of a job's last failed step ended on `node`; none where there is no record.

    A file that somebody else could have written is no record. Raises nothing.
    """
    data = _own_file(folder, f"{job_id}.{node}")
    return parse_record(data.decode("ascii", "replace"), node) if data else ()


def parse_record(text: str, node: str) -> tuple[TaskExit, ...]:
    """Pure. Lines of another form are passed over; the last step with a bad end is the one."""
    steps: dict[int, list[TaskExit]] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        step, rank, _, _, status, at = found.groups()
        # The process's signal does not hold the core-dump flag.
        signal = int(status) & 0x7F
        steps.setdefault(int(step), []).append(
            TaskExit(
                rank=int(rank),
                node=node,
                exit_code=None if signal else (int(status) >> 8) & 0xFF,
                signal=signal or None,
                at=float(at),
                fact=True,
                label=int(rank),
            )
        )
    bad = [tasks for tasks in steps.values() if any(x.exit_code or x.signal for x in tasks)]
    return tuple(max(bad, key=_end)) if bad else ()


def gather(folder: str, job_id: int, node: str, shared: str | None = None) -> tuple[TaskExit, ...]:
    """What this node recorded, and what the others left in the folder that all nodes see."""
    found = list(read_record(folder, job_id, node))
    if shared:
        below = f"{shared}/{SHARED}"
        for name in _names(below):
            told = _NAME.match(name)
            if told and told[1] == str(job_id) and told[2] != node:
                found += read_record(below, job_id, told[2])
    return tuple(found)


def share(folder: str, job_id: int, node: str, shared: str) -> None:
    """Leave this node's record of a failed job where its first node finds it. Best effort."""
    from healthcheck.own_folder import own_folder
    from healthcheck.whole_file import write_whole

    data = _own_file(folder, f"{job_id}.{node}")
    if not data:
        return
    try:
        own_folder(f"{shared}/{SHARED}")
        write_whole(f"{shared}/{SHARED}/{job_id}.{node}", data)
    except OSError:
        pass


def _end(tasks: Iterable[TaskExit]) -> float:
    return max(x.at or 0.0 for x in tasks)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _own_file(folder: str, name: str) -> bytes:
    """The content of a file that only root (us) can have written; b"" of any other."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        above = os.stat(folder, follow_symlinks=False)
        fd = os.open(f"{folder}/{name}", flags)
    except OSError:
        return b""
    try:
        about = os.fstat(fd)
        mine = all(one.st_uid == os.geteuid() and not one.st_mode & 0o022 for one in (above, about))
        if not mine or not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            return b""
        with open(fd, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)
