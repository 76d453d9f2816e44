"""What a page says about one node: a sweep's result made fit for reading. Pure.

Everything a host said is untrusted here: odd shapes become "no answer", and texts lose escape
sequences, control characters and direction overrides and are cut.
"""

from enum import StrEnum

import msgspec

from healthcheck.model import Action, Ending, Severity, Verdict
from healthcheck.model.judgement import Measure
from healthcheck.report.clean import clean
from slurm_integration.sweep.model import Answer, NodeResult

MAX_NAME, MAX_TEXT = 120, 400
"""Characters kept of a name and of any other text."""
MAX_FINDINGS = 40
"""Findings kept of one node, the worst ones."""
_RANK = {Severity.FAIL: 0, Severity.WARN: 1, Severity.INFO: 2}


class Standing(StrEnum):
    """Where a node stands: its verdict, or that it gave none. In the order of urgency."""

    NO_GO = "no-go"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"
    SILENT = "no answer"
    GO = "go"


class Told(msgspec.Struct, frozen=True):
    """One finding, all of it clean text."""

    check: str
    severity: Severity
    action: Action
    subject: str
    message: str
    measured: str
    expected: str
    source: str


class Blind(msgspec.Struct, frozen=True):
    """A check that could not judge, and why."""

    check: str
    ending: Ending
    reason: str


class Reading(msgspec.Struct, frozen=True):
    """One node of the page. `more`: findings beyond the ones kept."""

    name: str
    standing: Standing
    answer: Answer
    profile: str
    rack: str
    state: str
    transport: str
    seconds: float
    detail: str
    findings: tuple[Told, ...] = ()
    blind: tuple[Blind, ...] = ()
    more: int = 0


class _Finding(msgspec.Struct):
    severity: Severity
    subject: str = ""
    message: str = ""
    measured: Measure = None
    expected: Measure = None
    action: Action = Action.NONE
    source: str | None = None


class _Outcome(msgspec.Struct):
    check: str
    outcome: Ending
    reason: str | None = None
    findings: list[_Finding] = []


class _Report(msgspec.Struct):
    verdict: Verdict
    profile: str = ""
    outcomes: list[_Outcome] = []


def read_result(result: NodeResult, rack: str = "") -> Reading:
    """One node's result as the page shows it. Never raises for what a host sent."""
    report, detail, answer = None, result.detail, result.answer
    if result.answer is Answer.REPORTED:
        try:
            report = msgspec.convert(result.report, _Report)
        except msgspec.ValidationError as error:
            answer, detail = Answer.GARBAGE, f"its report is not of flightcheck's form: {error}"
    found = _findings(report) if report else []
    return Reading(
        name=clean(result.node, MAX_NAME),
        standing=Standing(report.verdict.value) if report else Standing.SILENT,
        answer=answer,
        profile=clean(report.profile, MAX_NAME) if report else "",
        rack=clean(rack, MAX_NAME),
        state=clean(result.state, MAX_NAME),
        transport=clean(result.transport, MAX_NAME),
        seconds=round(result.seconds, 2),
        detail=clean(detail, MAX_TEXT),
        findings=tuple(found[:MAX_FINDINGS]),
        blind=tuple(_blind(report)) if report else (),
        more=max(0, len(found) - MAX_FINDINGS),
    )


def _findings(report: _Report) -> list[Told]:
    """All findings, worst first."""
    told = [
        Told(
            clean(outcome.check, MAX_NAME),
            finding.severity,
            finding.action,
            clean(finding.subject, MAX_NAME),
            clean(finding.message, MAX_TEXT),
            say(finding.measured),
            say(finding.expected),
            clean(finding.source or "", MAX_TEXT),
        )
        for outcome in report.outcomes
        for finding in outcome.findings
    ]
    return sorted(told, key=lambda one: _RANK[one.severity])


def _blind(report: _Report) -> list[Blind]:
    odd = {Ending.UNMEASURED, Ending.ERROR, Ending.TIMED_OUT}
    return [
        Blind(clean(one.check, MAX_NAME), one.outcome, clean(one.reason or "", MAX_TEXT))
        for one in report.outcomes[:1000]
        if one.outcome in odd
    ][:MAX_FINDINGS]


def say(value: Measure) -> str:
    """A measured or expected figure in words: `7`, `16.25`, `yes`, or nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean(str(value), MAX_TEXT)
