"""Findings, outcomes and verdicts: what flightcheck says about a node."""

from enum import StrEnum

import msgspec

Measure = str | int | float | bool | None
"""A measured or expected figure; its unit stands in the message."""


class Severity(StrEnum):
    """How bad a finding is. `info` never changes the verdict."""

    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


class Action(StrEnum):
    """What mends a finding, mildest first."""

    NONE = "none"
    RESTART_APP = "restart-app"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    DRAIN = "drain"
    REPLACE = "replace"


class Ending(StrEnum):
    """How a check ended. Only `found` carries findings that judge the node."""

    PASSED = "passed"
    FOUND = "found"
    NOT_APPLICABLE = "not-applicable"
    UNMEASURED = "unmeasured"
    ERROR = "error"
    TIMED_OUT = "timed-out"


class Verdict(StrEnum):
    """What all outcomes of one run add up to."""

    GO = "go"
    DEGRADED = "degraded"
    NO_GO = "no-go"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """The exit code of `flightcheck check`: 0 go, 1 degraded, 2 no-go, 3 unknown."""
        return {"go": 0, "degraded": 1, "no-go": 2, "unknown": 3}[self.value]


class Finding(msgspec.Struct, frozen=True, omit_defaults=False):
    """One statement about one subject of the node.

    `subject` is a PCI address (`0000:b3:00.0`), an HCA port (`mlx5_0/1`), a mount point or
    another thing an operator can put a finger on. `limit` names the field of the check's limits
    that was passed, so that the figure's source can be given.
    """

    severity: Severity
    subject: str
    message: str
    measured: Measure = None
    expected: Measure = None
    action: Action = Action.NONE
    source: str | None = None
    limit: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """How one check ended. `reason` says why it could not judge, for every ending but two."""

    check: str
    outcome: Ending
    findings: tuple[Finding, ...] = ()
    reason: str | None = None


class Report(msgspec.Struct, frozen=True):
    """What one run of flightcheck on one node has to say."""

    verdict: Verdict
    node: str
    profile: str
    stage: str
    duration_s: float
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    """What the reader should know besides: a refused configuration, a state set aside."""

    def findings(self, severity: Severity | None = None) -> list[tuple[str, Finding]]:
        """(check, finding) pairs, worst first, in the order of the checks within a severity."""
        order = {Severity.FAIL: 0, Severity.WARN: 1, Severity.INFO: 2}
        pairs = [
            (outcome.check, finding)
            for outcome in self.outcomes
            for finding in outcome.findings
            if severity is None or finding.severity is severity
        ]
        return sorted(pairs, key=lambda pair: order[pair[1].severity])


class NotApplicable(Exception):  # noqa: N818 - an answer, not an error
    """Raised by a check that has nothing to judge on this node; the text says why."""


class Unmeasured(Exception):  # noqa: N818 - an answer, not an error
    """Raised by a check whose facts are not there; the text says why."""


class _Maker:
    """Builds findings of one severity; `fail(...)` reads better than the long form."""

    def __init__(self, severity: Severity) -> None:
        self._severity = severity

    def __call__(
        self,
        subject: str,
        message: str,
        *,
        measured: Measure = None,
        expected: Measure = None,
        action: Action = Action.NONE,
        source: str | None = None,
        limit: str | None = None,
    ) -> Finding:
        return Finding(self._severity, subject, message, measured, expected, action, source, limit)


fail = _Maker(Severity.FAIL)
"""A finding that makes the node no-go."""
warn = _Maker(Severity.WARN)
"""A finding that makes the node degraded."""
info = _Maker(Severity.INFO)
"""A finding that is told and judges nothing."""


def verdict_of(outcomes: tuple[Outcome, ...], *, refused: bool = False) -> Verdict:
    """The verdict all outcomes add up to.

    A fail is no-go whatever else could not be judged. Otherwise a check that could not judge
    makes the verdict unknown: it must not hide behind the ones that passed (law 2). `refused`:
    the configuration was, so the limits judged by are not the site's; a fail found with them is
    told but never drains, and the verdict is unknown.
    """
    if refused:
        return Verdict.UNKNOWN
    severities = {f.severity for o in outcomes for f in o.findings}
    if Severity.FAIL in severities:
        return Verdict.NO_GO
    blind = {Ending.ERROR, Ending.TIMED_OUT, Ending.UNMEASURED}
    if any(o.outcome in blind for o in outcomes):
        return Verdict.UNKNOWN
    return Verdict.DEGRADED if Severity.WARN in severities else Verdict.GO
