"""Facts + limits → outcomes → verdict. Pure: a replayed snapshot is judged by the same code."""

from collections.abc import Iterable
from datetime import date
from typing import Any

import msgspec

from healthcheck.config import CheckSettings, Config
from healthcheck.model import (
    Ending,
    Finding,
    NotApplicable,
    Outcome,
    Severity,
    Snapshot,
    Unmeasured,
)
from healthcheck.profile import Profile
from healthcheck.registry import Check, limits_of

_UNTOUCHED = CheckSettings()


class Selection(msgspec.Struct, frozen=True):
    """Which checks to run: those of a stage, narrowed by names."""

    stage: str
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    def takes(self, declared: Check) -> bool:
        """Whether this check is one of them."""
        if declared.name in self.skip or (self.only and declared.name not in self.only):
            return False
        return self.stage in declared.stages


def judge(
    node: Snapshot,
    checks: Iterable[Check],
    broken: dict[str, str],
    profile: Profile,
    config: Config,
    selection: Selection,
    today: date,
) -> tuple[Outcome, ...]:
    """One outcome a check, in the order of names; one broken check never hides the others."""
    outcomes = [
        judge_one(node, declared, profile, config.checks.get(declared.name, _UNTOUCHED), today)
        for declared in sorted(checks, key=lambda c: c.name)
        if selection.takes(declared)
    ]
    outcomes += [
        Outcome(module.rpartition(".")[2].replace("_", "-"), Ending.ERROR, reason=why)
        for module, why in sorted(broken.items())
    ]
    return tuple(outcomes)


def judge_one(
    node: Snapshot, declared: Check, profile: Profile, settings: CheckSettings, today: date
) -> Outcome:
    """How one check ends on one node. Never raises."""
    name = declared.name
    if not settings.enabled:
        return Outcome(name, Ending.NOT_APPLICABLE, reason="switched off in the configuration")
    figures = profile.checks.get(name, {})
    try:
        limits = _limits(declared, figures, settings)
        if limits is None:
            why = f"profile {profile.name} expects nothing here"
            return Outcome(name, Ending.NOT_APPLICABLE, reason=why)
        missing = _missing(node, declared)
        if missing is not None:
            return missing
        findings = declared.judge(node, limits)
    except NotApplicable as told:
        return Outcome(name, Ending.NOT_APPLICABLE, reason=str(told))
    except Unmeasured as told:
        return Outcome(name, Ending.UNMEASURED, reason=str(told))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - law 2: a bug is loud, never drains
        return Outcome(name, Ending.ERROR, reason=f"{type(error).__name__}: {error}")
    if not findings:
        return Outcome(name, Ending.PASSED)
    waived = settings.waive_until is not None and today <= settings.waive_until
    return Outcome(
        name,
        Ending.FOUND,
        tuple(_finish(f, declared, figures, settings, waived) for f in findings),
    )


def _limits(
    declared: Check, figures: dict[str, Any], settings: CheckSettings
) -> msgspec.Struct | None:
    """The limits in force, or None where neither profile nor site sets the ones it requires."""
    values = {field: figure.value for field, figure in figures.items()} | settings.limits
    if not values and declared.needs_profile():
        return None
    return limits_of(declared, values)


def _missing(node: Snapshot, declared: Check) -> Outcome | None:
    """The outcome of a check whose facts are not there."""
    for field in declared.needs:
        if getattr(node, field) is not None:
            continue
        problem = node.problems.get(field)
        if problem is None:
            return Outcome(declared.name, Ending.UNMEASURED, reason=f"{field} was not read")
        late = problem.kind in ("hung", "slow", "stalled")
        ending = Ending.TIMED_OUT if late else Ending.UNMEASURED
        return Outcome(declared.name, ending, reason=f"{field}: {problem.reason}")
    return None


def _finish(
    finding: Finding,
    declared: Check,
    figures: dict[str, Any],
    settings: CheckSettings,
    waived: bool,
) -> Finding:
    """The finding with its source filled in and a waiver applied."""
    source = finding.source
    if source is None and finding.limit is not None:
        if finding.limit in settings.limits:
            source = "site configuration"
        elif finding.limit in figures:
            source = figures[finding.limit].source
    message, severity = finding.message, finding.severity
    if waived and severity is not Severity.INFO:
        why = f": {settings.waive_reason}" if settings.waive_reason else ""
        message = f"{message} (waived until {settings.waive_until}{why})"
        severity = Severity.INFO
    return msgspec.structs.replace(
        finding, message=message, severity=severity, source=source or declared.source
    )
