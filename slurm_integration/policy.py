"""Verdict × stage → what is done. Pure."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from healthcheck.config import CheckSettings, Config
from healthcheck.model import Finding, Report, Severity, Verdict

FABRIC = "fabric"
"""Subject of findings about the network beyond this node (a port without a subnet manager)."""
REQUEUE_LIMIT = 3
"""A job that was sent back this often runs: somewhere the cause is not the node."""


class Do(StrEnum):
    """What a stage does about its verdict, mildest first."""

    PASS = "pass"
    ALERT = "alert"
    REQUEUE = "requeue"
    DRAIN = "drain"


class Decision(msgspec.Struct, frozen=True):
    """What to do, why in one line, and the findings it rests on (check, finding), worst first."""

    do: Do
    why: str
    findings: tuple[tuple[str, Finding], ...] = ()


def decide(report: Report, config: Config, restart_count: int = 0) -> Decision:
    """What a stage does about this report.

    Only a failing finding drains. Where the node could not be judged the job runs, unless
    `on_unknown` sends it elsewhere; a job that has been sent back REQUEUE_LIMIT times runs.
    """
    if report.verdict is Verdict.GO:
        return Decision(Do.PASS, "go")
    if report.verdict is Verdict.DEGRADED:
        warned = tuple(report.findings(Severity.WARN))
        return Decision(Do.ALERT, f"degraded, {len(warned)} warnings; the job runs", warned)
    if report.verdict is Verdict.UNKNOWN:
        return _unknown(report, config, restart_count)
    return _no_go(report, config.checks, restart_count)


def _unknown(report: Report, config: Config, restart_count: int) -> Decision:
    told = tuple(report.findings(Severity.FAIL))
    if config.on_unknown == "requeue" and restart_count < REQUEUE_LIMIT:
        return Decision(Do.REQUEUE, "unknown; on_unknown sends the job elsewhere", told)
    return Decision(Do.ALERT, "unknown: this node could not be judged; the job runs", told)


def _no_go(report: Report, settings: Mapping[str, CheckSettings], restart_count: int) -> Decision:
    failed = report.findings(Severity.FAIL)
    order = list(Do)
    wishes = [(_wish(settings.get(check), finding), check, finding) for check, finding in failed]
    strongest = max((wish for wish, _, _ in wishes), key=order.index)
    why = "no-go"
    if strongest is Do.REQUEUE and restart_count >= REQUEUE_LIMIT:
        strongest, why = Do.ALERT, f"no-go; requeued {restart_count} times already, so it runs"
    # The findings that asked for it come first: they make the drain reason.
    wishes.sort(key=lambda one: -order.index(one[0]))
    return Decision(strongest, why, tuple((check, finding) for _, check, finding in wishes))


def _wish(settings: CheckSettings | None, finding: Finding) -> Do:
    """What a failing finding asks for: what the site says, else a drain of this node.

    A finding about the fabric is not this node's fault, and would drain node after node; the job
    is sent elsewhere while somebody looks.
    """
    if settings and settings.action:
        return Do(settings.action)
    return Do.REQUEUE if finding.subject == FABRIC else Do.DRAIN
