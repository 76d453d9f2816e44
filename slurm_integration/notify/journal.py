"""One structured line for each decision: to journald in its own form, else to syslog.

`journalctl FLIGHTCHECK_DECISION=drain`, `journalctl SLURM_JOB_ID=4711`. Imported only where there
is something to tell; a datagram that nobody takes at once is dropped.
"""

import socket
from collections.abc import Mapping

from healthcheck.model import Job, Report
from healthcheck.report.clean import clean

JOURNAL = "/run/systemd/journal/socket"
SYSLOG = "/dev/log"
TAG = "flightcheck"
MAX_VALUE = 1000
ERROR, WARNING, NOTICE = 3, 4, 5
_DAEMON = 3 << 3


def fields_of(
    report: Report, decision: str, why: str, job: Job | None, outcome: str = ""
) -> dict[str, str]:
    """What is written, by journald's names. Pure."""
    worst = next(iter(report.findings()), None)
    fields = {
        "MESSAGE": f"{report.verdict.value} {report.node} [{report.stage}] {decision}: {why}",
        "PRIORITY": str({"drain": ERROR, "requeue": ERROR, "alert": WARNING}.get(decision, NOTICE)),
        "SYSLOG_IDENTIFIER": TAG,
        "FLIGHTCHECK_NODE": report.node,
        "FLIGHTCHECK_STAGE": report.stage,
        "FLIGHTCHECK_VERDICT": report.verdict.value,
        "FLIGHTCHECK_DECISION": decision,
        "FLIGHTCHECK_OUTCOME": outcome,
    }
    if worst is not None:
        check, finding = worst
        fields |= {"FLIGHTCHECK_CHECK": check, "FLIGHTCHECK_SUBJECT": finding.subject}
    if job is not None:
        fields["SLURM_JOB_ID"] = str(job.job_id)
        fields["SLURM_JOB_USER"] = job.user or ""
    return {name: clean(text)[:MAX_VALUE] for name, text in fields.items() if text}


def as_journal(fields: Mapping[str, str]) -> bytes:
    """journald's own form: `NAME=value` lines; the values have no line breaks any more."""
    return "".join(f"{name}={text}\n" for name, text in fields.items()).encode("utf-8", "replace")


def as_syslog(fields: Mapping[str, str]) -> bytes:
    """RFC 3164 as glibc's syslog() sends it to /dev/log, without a time: the daemon adds one."""
    level = int(fields.get("PRIORITY", NOTICE))
    extra = " ".join(
        f"{name.removeprefix('FLIGHTCHECK_').lower()}={text}"
        for name, text in fields.items()
        if name.startswith(("FLIGHTCHECK_", "SLURM_")) and " " not in text
    )
    return f"<{_DAEMON | level}>{TAG}: {fields['MESSAGE']} ({extra})".encode("utf-8", "replace")


def write(fields: Mapping[str, str], where: str = "auto", root: str = "") -> bool:
    """Send it; whether somebody took it. Never raises, never waits."""
    if where in ("auto", "journald") and _send(root + JOURNAL, as_journal(fields)):
        return True
    return where in ("auto", "syslog") and _send(root + SYSLOG, as_syslog(fields))


def _send(path: str, data: bytes) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
            door.setblocking(False)
            door.sendto(data, path)
    except OSError:
        return False
    return True
