"""The environment of Slurm's hooks, read into a Job.

On the path of every healthy prolog: nothing but the model is imported. Names of 22.05 to 25.11.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from healthcheck.model.job import Job

MAX_VALUE = 4096
"""Characters kept of any value; a user can make some of them as long as the kernel allows."""
MAX_SPANK = 64
MAX_GPUS = 1024
_MAX_NUMBER = 1 << 63

T = TypeVar("T")


class _Reader:
    """Takes values out of an environment and notes the odd ones instead of raising."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.odd: list[str] = []

    def text(self, *names: str) -> str | None:
        """The first of `names` that is set to something, bounded and free of control characters."""
        for name in names:
            value = self.env.get(name)
            if value:
                return self._bounded(name, value)
        return None

    def parsed(self, parse: Callable[[str], T], *names: str) -> T | None:
        """The first of `names` that is set, parsed; None and a note where it can't be."""
        for name in names:
            value = self.env.get(name)
            if not value:
                continue
            try:
                return parse(value)
            except ValueError as error:
                self.note(name, value, str(error))
                return None
        return None

    def note(self, name: str, value: str, expected: str) -> None:
        """Remember that `name` held something else than `expected`."""
        self.odd.append(f"{name}: expected {expected}, found {clean(value)[:80]!r}")

    def _bounded(self, name: str, value: str) -> str:
        if len(value) > MAX_VALUE:
            self.note(name, value, f"at most {MAX_VALUE} characters, cut")
        return clean(value[:MAX_VALUE])


def clean(text: str) -> str:
    """`text` without control characters and undecodable bytes (they become `?`)."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def read_job(env: Mapping[str, str]) -> Job | None:
    """The job that Slurm's hook environment describes; None where it names no job.

    Never raises: a value that can't be understood becomes None and a line in `Job.odd`.
    """
    read = _Reader(env)
    job_id = read.parsed(_number, "SLURM_JOB_ID", "SLURM_JOBID")
    if job_id is None:
        return None
    minors, uuids = _gpus(read)
    code, signal = _exit(read)
    derived = read.parsed(_number, "SLURM_JOB_DERIVED_EC")
    return Job(
        job_id=job_id,
        uid=read.parsed(_number, "SLURM_JOB_UID", "SLURM_UID"),
        gid=read.parsed(_number, "SLURM_JOB_GID"),
        user=read.text("SLURM_JOB_USER"),
        account=read.text("SLURM_JOB_ACCOUNT"),
        partition=read.text("SLURM_JOB_PARTITION"),
        comment=read.text("SLURM_JOB_COMMENT"),
        work_dir=read.text("SLURM_JOB_WORK_DIR"),
        nodelist=read.text("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
        num_nodes=read.parsed(_number, "SLURM_JOB_NUM_NODES"),
        node_name=read.text("SLURMD_NODENAME"),
        restart_count=read.parsed(_number, "SLURM_JOB_RESTART_COUNT") or 0,
        gpu_minors=minors,
        gpu_uuids=uuids,
        script_context=read.text("SLURM_SCRIPT_CONTEXT"),
        spank=_spank(read),
        stdin=read.text("SLURM_JOB_STDIN"),
        stdout=read.text("SLURM_JOB_STDOUT"),
        stderr=read.text("SLURM_JOB_STDERR"),
        exit_code=code,
        exit_signal=signal,
        derived_exit_code=None if derived is None else _as_shell(derived),
        odd=tuple(read.odd),
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) >= _MAX_NUMBER:
        raise ValueError("a whole number")
    return int(text)


def _gpus(read: _Reader) -> tuple[tuple[int, ...] | None, tuple[str, ...] | None]:
    """Minor numbers and UUIDs of the job's GPUs.

    SLURM_JOB_GPUS names gres indices, which are the N of /dev/nvidiaN. CUDA_VISIBLE_DEVICES
    counts from 0 again under cgroups, so only its UUIDs (MIG, or AutoDetect=nvml) mean anything.
    """
    minors = read.parsed(_minors, "SLURM_JOB_GPUS")
    visible = read.env.get("CUDA_VISIBLE_DEVICES", "")[: MAX_VALUE * 4]
    uuids = tuple(part for part in visible.split(",") if part.startswith(("GPU-", "MIG-")))
    if any(len(part) > 128 or not part.isprintable() for part in uuids):
        read.note("CUDA_VISIBLE_DEVICES", visible, "GPU- or MIG- UUIDs")
        return minors, None
    return minors, uuids[:MAX_GPUS] or None


def _minors(text: str) -> tuple[int, ...]:
    """`0,1,4-7` → (0, 1, 4, 5, 6, 7)."""
    expected = f"at most {MAX_GPUS} GPU indices such as 0,1,4-7"
    found: set[int] = set()
    for part in text.split(",", MAX_GPUS + 1):
        low, dash, high = part.partition("-")
        try:
            first = _number(low)
            last = _number(high) if dash else first
        except ValueError:
            raise ValueError(expected) from None
        if not first <= last < MAX_GPUS:
            raise ValueError(expected)
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _exit(read: _Reader) -> tuple[int | None, int | None]:
    """Exit code and signal: from `exit:signal`, else from the wait status."""
    pair = read.parsed(_code_and_signal, "SLURM_JOB_EXIT_CODE2")
    if pair is not None:
        return pair
    status = read.parsed(_number, "SLURM_JOB_EXIT_CODE")
    if status is None:
        return None, None
    return status >> 8, status & 0x7F


def _as_shell(status: int) -> int:
    """A wait status as a shell would tell it: the exit code, or 128 + the signal. [tried, 22.05]"""
    return status >> 8 or ((status & 0x7F) + 128 if status & 0x7F else 0)


def _code_and_signal(text: str) -> tuple[int, int]:
    code, colon, signal = text.partition(":")
    if not colon:
        raise ValueError("exit:signal")
    return _number(code), _number(signal)


def _spank(read: _Reader) -> dict[str, str]:
    """SPANK_* variables. Their values come from the user: compare them with a fixed list."""
    names = [name for name in read.env if name.startswith("SPANK_")]
    if len(names) > MAX_SPANK:
        read.note("SPANK_*", str(len(names)), f"at most {MAX_SPANK} variables; the rest is dropped")
    return {clean(name)[:256]: clean(read.env[name][:MAX_VALUE]) for name in names[:MAX_SPANK]}
