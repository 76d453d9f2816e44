"""What is known of the job besides its logs: the hook's environment and `scontrol show job`."""

import re
import time
from calendar import timegm

import msgspec

from epilog.model import JobFacts
from healthcheck.model import Job
from slurm_integration.folded import first, parts

MAX_NODES = 65_536
MAX_DIGITS = 9
_STATES = {
    "TIMEOUT": "scheduler/time-limit",
    "DEADLINE": "scheduler/time-limit",
    "CANCELLED": "scheduler/cancelled",
    "PREEMPTED": "scheduler/preempted",
    "NODE_FAIL": "scheduler/node-failure",
}
_REASONS = {"TimeLimit": "scheduler/time-limit", "NodeDown": "scheduler/node-failure"}
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\Z")
_LIMIT = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}):(\d\d):(\d\d)\Z")


class Shown(msgspec.Struct, frozen=True):
    """What `scontrol -o show job` adds. None: not told. Times in unix seconds."""

    name: str | None = None
    array_job: str | None = None
    array_task: str | None = None
    state: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    work_dir: str | None = None
    started_at: float | None = None
    reason: str | None = None
    exit_signal: int | None = None
    limit_s: float | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None

    @property
    def scheduler_class(self) -> str | None:
        """The class of an end that the scheduler itself made."""
        return _STATES.get(self.state or "")


def failed(job: Job) -> bool:
    """Whether the job or one of its steps ended badly, as far as the environment tells."""
    return bool(job.exit_code or job.exit_signal or job.derived_exit_code)


def slurms_end(job: Job, shown: Shown) -> str | None:
    """The class of an end that Slurm itself made, None of any other.

    While an epilog runs the job's state is COMPLETING. What tells then is the reason that Slurm
    keeps, or that the hook was given the exit code 0 and Slurm's own record has a signal. [tried]
    """
    if shown.scheduler_class is not None or shown.state != "COMPLETING" or failed(job):
        return shown.scheduler_class
    known = _REASONS.get(shown.reason or "")
    return known or ("scheduler/cancelled" if shown.exit_signal else None)


def first_node(nodelist: str) -> str:
    """The first host of a folded list: `gpu[01-04,09],login1` → gpu01. Pure text, no library."""
    return first(nodelist)


def all_nodes(nodelist: str | None) -> tuple[str, ...]:
    """The hosts of a folded list in Slurm's own order; as far as it can be understood."""
    if not nodelist:
        return ()
    if "[" not in nodelist:
        return tuple(nodelist.split(",")[:MAX_NODES])
    from slurm_integration.sweep.nodeset import named

    found: list[str] = []
    for part in parts(nodelist):
        try:
            some = named(part)
        except ValueError:
            return ()
        if len(found) + len(some) > MAX_NODES:
            return tuple(found)
        found += some
    return tuple(dict.fromkeys(found))


def parse_show_job(text: str) -> Shown:
    """One job of `scontrol -o show job`. The name is free text and ends at UserId."""
    line = text.partition("\n")[0]
    name = _between(line, " JobName=", " UserId=")
    rest = line.partition(" UserId=")[2] if name is not None else line
    per_node = (_field(rest, "NtasksPerN:B:S:C") or "").partition(":")[0]
    tasks = _field(rest, "NumTasks") or ""
    signal = (_field(rest, "ExitCode") or "").partition(":")[2][:4]
    head = line.partition(" JobName=")[0] + " "
    return Shown(
        name=name,
        array_job=_field(head, "ArrayJobId"),
        array_task=_field(head, "ArrayTaskId"),
        state=_field(rest, "JobState"),
        stdout=_path(rest, "StdOut"),
        stderr=_path(rest, "StdErr"),
        work_dir=_path(rest, "WorkDir"),
        started_at=_when(_field(rest, "StartTime")),
        reason=_field(rest, "Reason"),
        exit_signal=int(signal) if signal.isdecimal() else None,
        limit_s=_duration(_field(rest, "TimeLimit")),
        tasks=_count(tasks),
        tasks_per_node=_count(per_node) or None,
    )


def build_facts(job: Job, shown: Shown) -> JobFacts:
    """Everything together, as attribution wants it."""
    nodes = all_nodes(job.nodelist)
    per_node = shown.tasks_per_node
    if per_node is None and shown.tasks and nodes and shown.tasks % len(nodes) == 0:
        per_node = shown.tasks // len(nodes)
    limit = None
    if shown.started_at is not None and shown.limit_s is not None:
        limit = shown.started_at + shown.limit_s
    return JobFacts(
        job_id=job.job_id,
        uid=job.uid,
        user=job.user,
        exit_code=job.exit_code,
        exit_signal=job.exit_signal,
        derived_exit_code=job.derived_exit_code,
        nodes=nodes,
        tasks_per_node=(per_node,) * len(nodes) if per_node else (),
        started_at=shown.started_at,
        ended_at=time.time(),
        time_limit_at=limit,
        restart_count=job.restart_count,
    )


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None


def _between(line: str, start: str, end: str) -> str | None:
    _, found, rest = line.partition(start)
    return rest.partition(end)[0] if found else None


def _sole(line: str, key: str, end: str) -> str | None:
    """A field that is there once. A job's name may imitate fields before the real ones, a comment
    or a path behind them: of two nobody knows which is Slurm's, so neither is believed.
    """
    _, found, rest = line.partition(f" {key}=")
    return rest.partition(end)[0] if found and f" {key}=" not in rest else None


def _field(line: str, key: str) -> str | None:
    value = _sole(line, key, " ")
    return None if value in (None, "", "(null)", "N/A", "Unknown") else value


def _path(line: str, key: str) -> str | None:
    """A path may hold blanks: it ends before the next ` Key=`."""
    value = _sole(line, key, "\n")
    if value is None:
        return None
    return re.split(r" (?=[A-Z][A-Za-z:/]*=)", value, maxsplit=1)[0].strip() or None


def _when(text: str | None) -> float | None:
    """scontrol was asked for UTC."""
    found = _TIME.match(text or "")
    try:
        return float(timegm((*(int(n) for n in found.groups()), 0, 0, 0))) if found else None
    except ValueError:
        return None  # no such day


def _duration(text: str | None) -> float | None:
    found = _LIMIT.match(text or "")
    if not found:
        return None
    days, hours, minutes, seconds = (int(n or 0) for n in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
