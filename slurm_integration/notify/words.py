"""An event in one line, for a message that somebody reads on a telephone. Pure."""

from healthcheck.node_event import NodeEvent
from healthcheck.report.clean import clean

MAX = 400
_SAME = frozenset({"already-ours", "foreign", "foreign-drain", "dry-run"})
"""Outcomes of a drain that changed nothing."""


def is_news(event: NodeEvent, kinds: tuple[str, ...]) -> bool:
    """Whether somebody wants to hear of it."""
    if event.kind not in kinds:
        return False
    return not (event.kind == "drain" and event.outcome in _SAME)


def line(event: NodeEvent) -> str:
    """`node17 drained: flightcheck: no-go gpu-count: …`."""
    said = {
        "drain": f"{event.outcome or 'drain'}: {event.message or ''}",
        "requeue": f"job {event.job_id} {event.outcome}: {event.message or ''}",
        "alert": f"{event.verdict or 'alert'}: {event.message or ''}",
        "resume": f"is back in service: {event.message or ''}",
        "job-failure": f"job {event.job_id} failed: {event.klass}: {event.message or ''}",
        "verdict": f"is {event.verdict}, was {event.before or 'not looked at'}",
        "finding": f"{event.severity} {event.check} {event.subject}: {event.message or ''}",
        "cleared": f"{event.check} {event.subject} is clean again",
    }.get(event.kind, f"{event.kind}: {event.message or ''}")
    return clean(f"{event.node} {said}")[:MAX].rstrip(": ")
