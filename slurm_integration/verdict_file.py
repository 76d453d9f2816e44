"""What the prolog, which is root's, leaves for the task prolog, which is the user's.

One small world-readable file a job in a folder that only root writes: the verdict in a line, the
GPUs by their minor numbers, so that no task has to ask the driver, and `[task_prolog]`, so that no
task has to parse the configuration. Nothing in it is secret from who has an account here.
"""

import os
from typing import Any

import msgspec

from healthcheck.model import Job, Report, Severity, Snapshot
from healthcheck.report.clean import clean
from healthcheck.whole_file import write_whole

FOLDER = "/run/flightcheck"
MAX_KEPT = 256
"""Files of jobs whose epilog never came; the oldest go."""


def leave_verdict(
    report: Report, job: Job | None, snapshot: Snapshot | None, settings: dict[str, Any],
    root: str = "",
) -> None:  # fmt: skip
    """Leave the file for this job. Best effort: a full /run fails no job.

    `settings`: the `[task_prolog]` table as it stands in the configuration; a wrong one counts as
    switched off. `root`: the folder that stands for the machine, if one does.
    """
    if job is None:
        return
    folder = root + FOLDER
    data = msgspec.json.encode(
        {
            "node": report.node,
            "verdict": report.verdict.value,
            "line": line(report),
            "gpus": _gpus(snapshot),
            "settings": _settings(settings),
        }
    )
    path = f"{folder}/{job.job_id}"
    try:
        try:
            write_whole(path, data, mode=0o644)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o755)
            os.chmod(folder, 0o755)  # noqa: S103 - read by every job's user
            write_whole(path, data, mode=0o644)
        _prune(folder)
    except OSError:
        pass


def remove_verdict(job_id: int, root: str = "") -> None:
    """For the epilog: the job has ended."""
    try:
        os.unlink(f"{root}{FOLDER}/{job_id}")
    except OSError:
        pass


def jobs_here(root: str = "") -> bool:
    """Whether a job runs on this node, as its prolog left word and no epilog has taken it away."""
    try:
        return any(name.isdigit() for name in os.listdir(root + FOLDER))
    except OSError:
        return False


def line(report: Report) -> str:
    """`node01 is go (41 checks in 0.09 s)`, or the worst finding."""
    head = f"{report.node} is {report.verdict.value}"
    for check, finding in report.findings():
        if finding.severity is not Severity.INFO:
            return clean(f"{head}: {check} {finding.subject}: {finding.message}", 300)
    return clean(f"{head} ({len(report.outcomes)} checks in {report.duration_s:.2f} s)", 300)


def _gpus(snapshot: Snapshot | None) -> dict[str, str]:
    gpus = snapshot.gpus or () if snapshot is not None else ()
    return {
        str(gpu.minor_number): gpu.uuid
        for gpu in gpus
        if gpu.minor_number is not None and gpu.uuid is not None
    }


def _settings(table: dict[str, Any]) -> dict[str, Any]:
    """The whole table with its defaults. Where it is refused, everything is off."""
    if not table:
        return {}  # the task prolog knows the defaults
    from healthcheck.config import section_type

    kind = section_type("task_prolog")
    try:
        settings = msgspec.convert(table, kind)
    except msgspec.ValidationError:
        settings = kind(flight_recorder="off", rank_map="off", tell="job")
    built: dict[str, Any] = msgspec.to_builtins(settings)
    return built


def _prune(folder: str) -> None:
    # Drafts of killed prologs too: each job has a name of its own.
    names = [n for n in os.listdir(folder) if n.lstrip(".").removesuffix(".draft").isdigit()]
    if len(names) > MAX_KEPT:
        names.sort(key=lambda name: os.stat(f"{folder}/{name}").st_mtime)
        for name in names[: len(names) - MAX_KEPT]:
            os.unlink(f"{folder}/{name}")
