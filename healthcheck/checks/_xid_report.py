"""From the Xid cases of a node to findings: one a GPU and code, causes before consequences."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from healthcheck.checks._xid_rules import APPLICATION_RULES, Case, Decision, decide, worse
from healthcheck.knowledge import XID_SOURCE
from healthcheck.model import Action, Event, Finding, Severity

if TYPE_CHECKING:
    from healthcheck.checks.xid import Limits

BEFORE_S, AFTER_S = 5.0, 300.0
"""Consequences come up to five minutes after their cause, and a few (45) are printed before it."""

_APPLICATION = frozenset({8, 11, 13, 25, 31, 32, 43, 68, 69, 80})
_MEMORY = frozenset({48, 94, 95, 140})
_OFF_BUS = frozenset({79, 167})
# What follows what: hardware reference, failures reference (119 and 120 after 74), and a real
# incident (74 with 45 before it, then 154 and 119).
_FOLLOWS: dict[int, frozenset[int]] = {
    171: _MEMORY,
    172: _MEMORY,
    62: _OFF_BUS,
    109: _OFF_BUS,
    119: _OFF_BUS | {74},
    120: _OFF_BUS | {74},
    143: _OFF_BUS,
}
_FOLLOWS_ANY = frozenset({45, 154, 63, 156}) | _APPLICATION
_ORDER = {Severity.FAIL: 0, Severity.WARN: 1, Severity.INFO: 2}


class Told(msgspec.Struct):
    """A case with what was decided and the codes that are shown under it."""

    case: Case
    decision: Decision
    under: list["Told"] = []

    def span(self) -> tuple[float, float]:
        """Unix time of its first and last event in this boot."""
        times = [event.at for event in self.case.now]
        return min(times), max(times)


def report(gpus: list[list[Case]], new: Iterable[Event], limits: "Limits") -> Iterator[Finding]:
    """Findings of all GPUs, the worst and earliest first."""
    fresh = {(e.at, e.code, e.subject) for e in new}
    told = [
        one for cases in gpus for one in _group([Told(c, decide(c, limits.repeat)) for c in cases])
    ]
    told = _doubt_the_software(told)
    for one in sorted(told, key=lambda t: (_ORDER[t.decision.severity], t.span()[0])):
        seen_before = not any((e.at, e.code, e.subject) in fresh for e in one.case.now)
        if one.decision.severity is Severity.INFO and seen_before:
            continue
        yield _finding(one)


def _group(told: list[Told]) -> list[Told]:
    """Put every consequence under its cause on the same GPU."""
    causes = [t for t in told if t.decision.severity is not Severity.INFO]
    causes.sort(key=lambda t: (_ORDER[t.decision.severity], t.span()[0]))
    left = []
    for one in sorted(told, key=lambda t: t.span()[0]):
        cause = next((c for c in causes if c is not one and _explains(c, one)), None)
        if cause is None:
            left.append(one)
        else:
            cause.under.append(one)
    return left


def _explains(cause: Told, one: Told) -> bool:
    code, by = one.case.xid.code, cause.case.xid.code
    if by in _FOLLOWS_ANY or by in _FOLLOWS or cause.decision.severity is Severity.INFO:
        # A code that itself follows explains only the plainest consequences.
        if code not in (45, 154) or by in (45, 154):
            return False
    elif not (code in _FOLLOWS_ANY or by in _FOLLOWS.get(code, ())):
        return False
    if one.decision.severity is Severity.FAIL and cause.decision.severity is not Severity.FAIL:
        return False
    if code in _APPLICATION and one.decision.severity is Severity.FAIL:
        return False
    begin, end = cause.span()
    return begin - BEFORE_S <= one.span()[0] <= end + AFTER_S


def _doubt_the_software(told: list[Told]) -> list[Told]:
    """Unrelated jobs that meet one application code on several GPUs alike speak against the
    software they share, not against every GPU.
    """
    codes = [
        t.case.xid.code for t in told if t.decision.action is Action.DRAIN and _by_jobs(t.case)
    ]
    alike = {code for code in codes if codes.count(code) > 1}
    for one in told:
        if one.case.xid.code in alike and _by_jobs(one.case):
            one.decision = Decision(
                Severity.WARN,
                Action.NONE,
                f"unrelated jobs met it on {codes.count(one.case.xid.code)} GPUs of this node "
                "alike: suspect driver or software before the GPUs",
            )
    return told


def _by_jobs(case: Case) -> bool:
    return case.xid.rule in APPLICATION_RULES and bool(case.unrelated_jobs())


def _finding(told: Told) -> Finding:
    case, decision = told.case, told.decision
    action = decision.action
    if decision.severity is Severity.FAIL:
        for one in told.under:
            action = worse(action, one.decision.action)
    what = f"Xid {case.xid.code} ({case.xid.description})"
    line = case.line()
    if line and line.lower() != case.xid.description.lower():
        what += f' "{line[:90]}"'
    count = case.count()
    times = "" if count == 1 else f" {count} times"
    after = _names(told)
    todo = decision.todo.rstrip(".")
    if action is not decision.action:
        todo = f"{todo}; {_stronger(told, action)}"
    return Finding(
        severity=decision.severity,
        subject=case.subject,
        message=f"{what}{times}, {_when(told)}{after}: {todo}{_accept(decision, action)}",
        measured=count,
        expected=0,
        action=action,
        source=None if decision.limit else f"{XID_SOURCE}, Xid {case.xid.code}",
        limit=decision.limit,
    )


def _stronger(told: Told, action: Action) -> str:
    one = next(o for o in told.under if o.decision.action is action)
    return f"Xid {one.case.xid.code}: {one.decision.todo}"


def _names(told: Told) -> str:
    codes = [str(one.case.xid.code) for one in told.under]
    job = next((e.job_id for e in told.case.now if e.job_id is not None), None)
    with_codes = f", with Xid {', '.join(codes)}" if codes else ""
    return with_codes + (f", after job {job} began" if job is not None else "")


def _when(told: Told) -> str:
    begin, end = told.span()
    first = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(begin))
    if end - begin < 60:
        return first
    return f"{first} to {time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime(end))}"


def _accept(decision: Decision, action: Action) -> str:
    if decision.severity is not Severity.FAIL or action is Action.REBOOT:
        return ""
    return "; then `flightcheck baseline accept`"
