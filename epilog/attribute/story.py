"""The chain of events told in order of time, and the owner's message. Plain words."""

import time
from collections import Counter
from collections.abc import Iterable

from epilog.attribute.case import Case, Claim, told
from epilog.attribute.groups import by_group
from epilog.attribute.order import start_of_hang
from epilog.classes import Fault, class_of
from epilog.model import Evidence, Role

MOST = 10
_SIGNALS = {6: "aborted (SIGABRT)", 9: "killed", 11: "crashed (SIGSEGV)", 15: "terminated"}
_FAULTS = {
    Fault.HARDWARE: "The hardware is at fault, not your program",
    Fault.NETWORK: "The network or a peer is suspected, not your program",
    Fault.SITE: "The installation is at fault, not the node's hardware",
    Fault.USER: "Your program or its settings are at fault, not the node",
    Fault.SCHEDULER: "Nobody's fault: the scheduler ended the job",
    Fault.UNKNOWN: "It is not known whose fault it is",
}


def chain(case: Case, claim: Claim) -> tuple[str, ...]:
    """What happened, one line an event, in order of time where the lines tell it."""
    silent = [(e.at, f"{_who(e)}{e.text}") for e in case.context if claim.note and _is_silence(e)]
    events = [*silent, *_root(claim), *_waits(case), *_teardown(case, claim)]
    timed = sorted((e for e in events if e[0] is not None), key=lambda e: e[0] or 0.0)
    lines = timed if len(timed) == len(events) else _merge(events)
    return tuple(f"{_clock(at)}{words}" for at, words in lines[:MOST])


def _is_silence(e: Evidence) -> bool:
    return e.signature.startswith("silence")


_Event = tuple[float | None, str]


def _merge(events: list[_Event]) -> list[_Event]:
    """Events without a time stay where they were told; the root comes first."""
    timed = iter(sorted((e for e in events if e[0] is not None), key=lambda e: e[0] or 0.0))
    return [next(timed) if e[0] is not None else e for e in events]


def _root(claim: Claim) -> list[_Event]:
    says = class_of(claim.klass).says
    roots = [e for e in claim.evidence if e.role is Role.ROOT and e.klass == claim.klass][:3]
    if not roots:
        where = told(claim.ranks) if claim.ranks else ", ".join(claim.nodes[:3])
        begin = f"{where}: {says}" if where else says
        return [(None, f"{begin} ({claim.why})"[:400])]
    return [(e.at, f"{_who(e)}{says}: {_quote(e)}") for e in _distinct(roots)]


def _distinct(evidence: Iterable[Evidence]) -> list[Evidence]:
    kept: dict[tuple[str | int | None, ...], Evidence] = {}
    for e in evidence:
        kept.setdefault((e.rank, e.host, e.klass), e)
    return list(kept.values())


def _waits(case: Case) -> list[_Event]:
    events: list[_Event] = []
    for name, group in by_group(case.works).items():
        pending = group.pending()
        if not pending:
            continue
        works = [group.standing[r] for r in pending]
        first = min(works, key=lambda w: (w.at is None, w.at or 0.0))
        op = next((w.op for w in works if w.op), "a collective")
        number = group.waited_for()
        begin = start_of_hang(first.at, next((w.timeout_ms for w in works if w.timeout_ms), None))
        count = f"{len(pending)} ranks" if len(pending) > 1 else told(pending)
        behind = group.behind()
        missing = f"; {told(behind)} did not come" if behind else ""
        verb = "wait" if len(pending) > 1 else "waits"
        events.append(
            (
                begin,
                f"{count} {verb} in {op} number {number} of group {name}{missing}",
            )
        )
        if first.at is not None:
            after = f" after {first.timeout_ms / 1000:.0f} s" if first.timeout_ms else ""
            events.append((first.at, f"the watchdog of rank {first.rank} gives up first{after}"))
    return events


def _teardown(case: Case, claim: Claim) -> list[_Event]:
    told_already = {id(e) for e in claim.evidence}
    later = [e for e in case.of(Role.CONSEQUENCE, Role.SYMPTOM) if id(e) not in told_already]
    later = [e for e in later if e.klass not in ("unknown/nccl-timeout", claim.klass)]
    events: list[_Event] = []
    counts = Counter(e.klass for e in later)
    for klass, count in counts.most_common(3):
        same = [e for e in later if e.klass == klass]
        ranks = {e.rank for e in same if e.rank is not None}
        first = min(same, key=lambda e: (e.at is None, e.at or 0.0, e.line))
        on = f" ({told(ranks)})" if ranks else ""
        times = f", {count} lines" if count > 1 else ""
        events.append((first.at, f"then: {class_of(klass).says}{on}{times}"))
    by_signal: dict[int, list[int | None]] = {}
    for x in case.exits:
        if x.signal in _SIGNALS and x.rank not in claim.ranks:
            by_signal.setdefault(x.signal or 0, []).append(x.rank)
    for signal, ranks_ in sorted(by_signal.items()):
        named = [r for r in ranks_ if r is not None]
        at = min(
            (x.at for x in case.exits if x.signal == signal and x.at is not None), default=None
        )
        events.append((at, f"{told(named) if named else 'a task'} {_SIGNALS[signal]}"))
    return events


def _who(e: Evidence) -> str:
    known = e.rank is not None or e.local_rank is not None or e.host
    return f"{who(e)}: " if known else ""


def who(e: Evidence) -> str:
    """`rank 3 on node17`, as much of it as is known."""
    on = f" on {e.host}" if e.host else ""
    if e.rank is not None:
        return f"rank {e.rank}{on}"
    if e.local_rank is not None:
        return f"local rank {e.local_rank}{on}"
    return e.host or "the log"


def _quote(e: Evidence) -> str:
    text = " ".join(e.text.split())
    return f"“{text[:157]}…”" if len(text) > 160 else f"“{text}”"


def _clock(at: float | None) -> str:
    if at is None:
        return ""
    return time.strftime("%H:%M:%S ", time.gmtime(at))


def message(claim: Claim, confidence: float) -> str:
    """Whose fault it was, what happened where, and what to change."""
    entry = class_of(claim.klass)
    where = told(claim.ranks).capitalize() if claim.ranks else ""
    if claim.nodes:
        where += f"{' on ' if where else 'On '}{', '.join(claim.nodes[:3])}"
        where += f" and {len(claim.nodes) - 3} more" if len(claim.nodes) > 3 else ""
    fault = _FAULTS[Fault.UNKNOWN if claim.note else entry.fault]
    if confidence < 0.6 and entry.fault is not Fault.UNKNOWN:
        fault = f"Probably: {fault[0].lower()}{fault[1:]}"
    what = f"{where}: {entry.says}" if where else f"{entry.says[0].upper()}{entry.says[1:]}"
    return f"{fault}. {what}. {claim.note or entry.advice}"
