"""Where reports of failed jobs are kept: a folder a job, bounded in number."""

import os

from healthcheck.own_folder import own_folder
from slurm_integration.hook import leave_file

FOLDER = "jobs"


def job_folder(base: str, job_id: int) -> str:
    """The folder of one job's report."""
    return f"{base}/{FOLDER}/{job_id}"


def keep_report(base: str, job_id: int, data: bytes, text: str, most: int) -> str | None:
    """Write report.json and report.txt; the oldest beyond `most` go. A note on failure."""
    folder = job_folder(base, job_id)
    try:
        own_folder(base)
        own_folder(f"{base}/{FOLDER}")
        own_folder(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}; the report of job {job_id} is not kept"
    leave_file(f"{folder}/report.json", data)
    leave_file(f"{folder}/report.txt", text.encode("utf-8", "replace"))
    _prune(f"{base}/{FOLDER}", most)
    return None


def read_report(base: str, job_id: int, name: str, limit: int = 4 << 20) -> bytes:
    """A kept report. Raises FileNotFoundError where there is none."""
    path = f"{job_folder(base, job_id)}/{name}"
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        return file.read(limit)


def kept_jobs(base: str) -> list[int]:
    """The jobs whose reports are kept, newest first."""
    found = []
    try:
        with os.scandir(f"{base}/{FOLDER}") as entries:
            for entry in entries:
                if entry.name.isdecimal() and entry.is_dir(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime, int(entry.name)))
    except OSError:
        return []
    return [job_id for _, job_id in sorted(found, reverse=True)]


def _prune(folder: str, most: int) -> None:
    for job_id in kept_jobs(os.path.dirname(folder))[most:]:
        for name in ("report.json", "report.txt"):
            try:
                os.unlink(f"{folder}/{job_id}/{name}")
            except OSError:
                pass
        try:
            os.rmdir(f"{folder}/{job_id}")
        except OSError:
            pass
