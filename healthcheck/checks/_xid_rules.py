"""From one Xid code's history on one GPU to what we say of it. Pure; no check by itself."""

import re
from itertools import pairwise

import msgspec

from healthcheck.knowledge import Xid
from healthcheck.knowledge.rules import RULES
from healthcheck.model import Action, Event, Gpu, Severity

SAME_INCIDENT_S = 10.0
"""One fault prints several lines (one a channel, one a process) at once; a repeat is later."""

APPLICATION_RULES = frozenset({"application", "engine", "pcie-repeat"})
"""Rules of codes that belong to the program that ran, until unrelated jobs meet them."""

_ACTIONS = list(Action)
_RECOVERY = re.compile(
    r"recovery action changed from .{0,60}? to 0x([0-9a-f]{1,8})(?: \(([^)]*)\))?", re.I
)
_NAME = re.compile(r"^pid=[^,]*, name=[^,]*,? ?")
_FATAL = re.compile(r"\bfatal\b", re.I)
_NONFATAL = re.compile(r"\bnon[-_ ]?fatal\b", re.I)
_PEER = re.compile(r"\bpeer\b|\bremote\b", re.I)
CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,6})")

# NVML's and the driver's numbers for a recovery action (nvml.h, nvmlGpuRecoveryAction_t).
_RECOVERIES: dict[int, tuple[Severity, Action, str]] = {
    1: (Severity.FAIL, Action.RESET_GPU, "reset the GPU"),
    2: (Severity.FAIL, Action.REBOOT, "reboot the node"),
    3: (Severity.FAIL, Action.DRAIN, "drain: its peer-to-peer traffic must end, then reset it"),
    4: (Severity.FAIL, Action.RESET_GPU, "drain and reset the GPU"),
    5: (Severity.FAIL, Action.DRAIN, "recover the IMEX domain"),
    6: (Severity.FAIL, Action.RESET_GPU, "reset the bus of the GPU"),
    7: (Severity.FAIL, Action.REBOOT, "reboot the node"),
}


class Case(msgspec.Struct, frozen=True):
    """One code on one GPU: its events of this boot (`now`) and all that are remembered.

    `recent` are those within the time that repetition is looked for, this boot or not. `resets`
    are the times (unix) at which the driver said that this GPU needs no recovery any more.
    """

    xid: Xid
    subject: str
    now: tuple[Event, ...]
    recent: tuple[Event, ...]
    past: tuple[Event, ...]
    resets: tuple[float, ...] = ()
    gpu: Gpu | None = None
    ecc_grew: bool = False

    def count(self) -> int:
        """Lines of this boot."""
        return sum(event.count for event in self.now)

    def line(self) -> str:
        """The first line's own words, without the process that happened to be there."""
        return _NAME.sub("", self.now[0].message).rstrip(".")

    def lives(self) -> int:
        """In how many lives of the GPU (between reboots and resets) this code was seen."""
        return len(
            {(e.boot_id, sum(at <= e.at for at in self.resets)) for e in (*self.past, *self.now)}
        )

    def unrelated_jobs(self) -> list[int]:
        """Jobs of at least two different users that recently met this code here; else nothing."""
        known = {e.uid: e.job_id for e in self.recent if e.uid is not None and e.job_id is not None}
        return sorted(set(known.values())) if len(set(known.values())) >= 2 else []


class Decision(msgspec.Struct, frozen=True):
    """What to say of a case. `limit` names the limit that made it worse than a first time."""

    severity: Severity
    action: Action
    todo: str
    limit: str | None = None


def incidents(events: tuple[Event, ...]) -> int:
    """How many times it happened: lines close together are one time."""
    times = sorted(event.at for event in events)
    return len(times[:1]) + sum(b - a >= SAME_INCIDENT_S for a, b in pairwise(times))


def worse(one: Action, other: Action) -> Action:
    """The stronger of two remedies."""
    return max(one, other, key=_ACTIONS.index)


def recovery_of(message: str) -> tuple[int, str] | None:
    """(number, words) of the action that an Xid 154 line ends at."""
    found = _RECOVERY.search(message)
    return (int(found[1], 16), found[2] or "") if found else None


def decide(case: Case, repeat: int) -> Decision:
    """What this case says of the node. `repeat`: so many times make a repetition."""
    rule = RULES[case.xid.rule]
    advice = (case.xid.advice or rule.todo).partition(". ")[0]
    first = Decision(rule.severity, rule.action, advice[:1].lower() + advice[1:])
    again = incidents(case.recent) >= repeat
    special = _BY_RULE.get(case.xid.rule)
    decision = special(case, first, again) if special else first
    after = case.xid.replace_after
    if decision.severity is Severity.FAIL and after is not None and case.lives() >= after:
        return Decision(
            Severity.FAIL,
            Action.REPLACE,
            f"back after {case.lives() - 1} reboot(s) or reset(s): replace the GPU"
            + (" or the cable, bridge or baseboard of its link" if case.xid.code in LINKS else ""),
        )
    return decision


LINKS = frozenset({74, 136, 144, 145, 146, 147, 148, 149, 150, 155})


def _application(case: Case, first: Decision, again: bool) -> Decision:
    if any("UNRECOGNIZED_CLIENT" in event.message for event in case.now) and case.xid.code == 31:
        todo = "the GPU itself made the access (UNRECOGNIZED_CLIENT): reboot the node"
        return Decision(Severity.FAIL, Action.REBOOT, todo)
    jobs = case.unrelated_jobs()
    if jobs:
        told = ", ".join(str(job) for job in jobs[:4])
        todo = f"seen in unrelated jobs of different users ({told}): suspect the GPU, test it"
        return Decision(Severity.FAIL, Action.DRAIN, todo)
    return first


def _engine(case: Case, first: Decision, again: bool) -> Decision:
    decision = _application(case, first, again)
    if decision is first and again:
        return Decision(Severity.WARN, first.action, "it keeps coming: watch this GPU", "repeat")
    return decision


def _pcie(case: Case, first: Decision, again: bool) -> Decision:
    decision = _application(case, first, again)
    if decision is first and again:
        todo = "it keeps coming: check the PCIe link of this GPU (replays, AER, riser)"
        return Decision(Severity.WARN, first.action, todo, "repeat")
    return decision


def _watch_reboot(case: Case, first: Decision, again: bool) -> Decision:
    if again:
        return Decision(Severity.FAIL, Action.REBOOT, "it keeps coming: reboot the node", "repeat")
    return first


def _contained(case: Case, first: Decision, again: bool) -> Decision:
    if again:
        todo = f"{incidents(case.recent)} times on this GPU: reset it so that rows are remapped"
        return Decision(Severity.FAIL, Action.RESET_GPU, todo, "repeat")
    return first


def _reset(case: Case, first: Decision, again: bool) -> Decision:
    if case.xid.code == 48 and case.gpu is not None and case.gpu.remap_failed:
        return Decision(Severity.FAIL, Action.REPLACE, "row remapping has failed: replace the GPU")
    return first


def _reset_idle(case: Case, first: Decision, again: bool) -> Decision:
    if case.gpu is not None and case.gpu.remap_pending is False and case.xid.code == 63:
        return Decision(Severity.INFO, Action.NONE, "the remapping is no longer pending")
    if case.ecc_grew:
        todo = "remapping pending and uncorrectable errors besides: reset the GPU now"
        return Decision(Severity.FAIL, Action.RESET_GPU, todo)
    return first


def _nvlink5(case: Case, first: Decision, again: bool) -> Decision:
    texts = [_NAME.sub("", event.message) for event in case.now]
    peer = (
        " The line points at the peer: inspect the other end too."
        if any(map(_PEER.search, texts))
        else ""
    )
    if any(_FATAL.search(_NONFATAL.sub("", text)) for text in texts):
        todo = "fatal: drain and reset the GPUs of the NVLink domain." + peer
        return Decision(Severity.FAIL, Action.RESET_GPU, todo)
    if any(map(_NONFATAL.search, texts)):
        return Decision(Severity.WARN, Action.NONE, "nonfatal: watch this link." + peer)
    return Decision(Severity.WARN, Action.NONE, "the line names no severity: review it." + peer)


def _recovery(case: Case, first: Decision, again: bool) -> Decision:
    last = max(case.now, key=lambda event: event.at)
    told = recovery_of(last.message)
    if told is None:
        return Decision(Severity.WARN, Action.NONE, "the action could not be read: review the line")
    number, words = told
    if number == 0:
        return Decision(Severity.INFO, Action.NONE, "the driver needs no recovery any more")
    known = _RECOVERIES.get(number)
    if known is None:
        return Decision(Severity.WARN, Action.NONE, f"unknown action {number} ({words}): review it")
    return Decision(known[0], known[1], f"the driver asks: {known[2]}")


_BY_RULE = {
    "application": _application,
    "engine": _engine,
    "pcie-repeat": _pcie,
    "watch-reboot": _watch_reboot,
    "contained": _contained,
    "reset": _reset,
    "reset-idle": _reset_idle,
    "nvlink5": _nvlink5,
    "recovery-action": _recovery,
}
