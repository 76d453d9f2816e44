"""Leaving the report where people find it: root's copy, and a file for the job's owner."""

import os
from typing import Any

import msgspec

from epilog.report.build import Told
from epilog.report.text import for_operator, for_owner
from epilog.settings import EpilogSettings
from epilog.state import keep_report

USER_S = 5.0
"""Seconds to write one small file; a hung file system must not hold the epilog."""


def leave_reports(
    report: dict[str, Any],
    told: Told,
    settings: EpilogSettings,
    base: str,
    output: str | None,
) -> list[str]:
    """Write them all; notes on what could not be written."""
    data = bytes(msgspec.json.format(msgspec.json.encode(report), indent=2)) + b"\n"
    note = keep_report(base, told.job.job_id, data, for_operator(report), settings.keep_reports)
    notes = [note] if note else []
    if settings.tell_user and told.done.decision.tell and output:
        notes += _tell_owner(told, for_owner(report), output)
    return notes


def owners_file(job_id: int, restarts: int = 0) -> str:
    """The name of the file beside the job's output: one for each time the job ran."""
    return f"flightcheck-{job_id}{f'.restart{restarts}' if restarts else ''}.txt"


def _tell_owner(told: Told, text: str, folder: str) -> list[str]:
    from epilog.reader.child import as_user

    job = told.job
    if job.uid is None or job.gid is None:
        return []
    path = f"{folder}/{owners_file(job.job_id, job.restart_count)}"

    def write() -> None:
        # Never through a link, never over a file: whatever has that name already stays.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o644)
        try:
            os.fchmod(fd, 0o644)
            os.write(fd, text.encode("utf-8", "replace"))
        finally:
            os.close(fd)

    if as_user(job.uid, job.gid, job.user, USER_S, write):
        return []
    return [f"{path} could not be written as {job.user or job.uid}"]
