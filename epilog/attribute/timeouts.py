"""Step 4: time-outs. Who had not joined what the others waited in?"""

from collections.abc import Mapping

from epilog.attribute.case import Case, Claim, Step, numbers, told
from epilog.attribute.groups import DEFAULT, UNNAMED, Group, by_group
from epilog.attribute.members import left_early, silent, speakers, victims
from epilog.attribute.order import start_of_hang
from epilog.attribute.parted import parted
from epilog.attribute.shapes import mismatch
from epilog.attribute.waits import Sink, sink
from epilog.model import Evidence, Role

TIMEOUT, HANG, DESYNC = "unknown/nccl-timeout", "unknown/hang", "user/desync"
SLOW = "infrastructure/fs-slow"
SHOWN = 6
NEAR_S = 5.0
"""A save that starts this close to the begin of the wait is what was waited for."""


def step(case: Case) -> Step:
    """Laggards, then an odd operation, then the absent; else all had joined."""
    waited = [e for e in case.evidence if e.klass in (TIMEOUT, HANG) and e.role is not Role.ROOT]
    if not case.works and not waited:
        return Step("no collective timed out")
    accused = [e for e in waited if e.fields.get("culprits")]
    if accused:
        ranks = tuple(sorted({r for e in accused for r in numbers(e.fields["culprits"])}))
        why = f"{told(ranks)} named by those that wait: {accused[0].text.strip()[:100]}"
        return Step(why, Claim(HANG, why, tuple(accused[:4]), ranks))
    groups = by_group(case.works)
    slow = _slow_storage(case)
    for name in _hung(groups):
        if groups[name].behind():
            return _laggards(case, groups, name, waited, slow)
    for name in _hung(groups):
        odd = mismatch(groups[name])
        if odd is not None:
            tie = ": a tie, so either side may be the odd one" if odd.tie else ""
            why = f"group {name}: {odd.what} ranks at the same number{tie}"
            shown = _shown(waited, odd.ranks)
            confidence = 0.7 if odd.tie else 1.0
            return Step(why, Claim(DESYNC, why, shown, odd.ranks, confidence=confidence))
    if slow is not None:
        return _stored(slow, waited)
    for name in _hung(groups):
        fewer = groups[name].lower()
        if fewer:
            why = (
                f"group {name}: all had joined number {groups[name].waited_for()}, but "
                f"{told(fewer)} had issued less after it than the others: its program stood still"
            )
            shown = _shown(waited, fewer)
            return Step(why, Claim(DESYNC, why, shown, fewer, confidence=0.6))
    return _absent(case, groups, waited)


def _hung(groups: Mapping[str, Group]) -> list[str]:
    """Groups in which somebody waits, the one where the wait began first at the front."""
    hung = [name for name, group in groups.items() if group.pending()]

    def begin(name: str) -> tuple[float, str]:
        starts = [start_of_hang(w.at, w.timeout_ms) for w in groups[name].standing.values()]
        return min((s for s in starts if s is not None), default=float("inf")), name

    return sorted(hung, key=begin)


def _laggards(
    case: Case,
    groups: Mapping[str, Group],
    name: str,
    waited: list[Evidence],
    slow: Evidence | None,
) -> Step:
    end = sink(groups, name)
    group = groups[name]
    waiting = len(group.pending())
    why = (
        f"group {name}: {waiting} rank(s) waited in number {group.waited_for()}, "
        f"{told(group.behind())} had not issued it"
    )
    if slow is not None and (slow.rank is None or slow.rank in end.ranks):
        return _stored(slow, waited)
    missing = silent(case, {r for g in groups.values() for r in g.standing} | speakers(waited))
    if missing and set(end.ranks) <= set(end.parked):
        why += f"; they wait themselves (group {end.path[-1]}), {told(missing)} says nothing at all"
        return Step(why, Claim(HANG, why, _shown(waited, end.ranks), missing))
    onward = _awaited(case, end.ranks)
    if onward:
        why += f"; it waits itself for a message, and the end of that is {told(onward)}"
        shown = _shown(waited, (*end.ranks, *onward))
        return Step(why, Claim(HANG, why, shown, onward, confidence=0.9))
    evidence = _shown(waited, (*end.ranks, *group.pending()))
    confidence = _certainty(case, end)
    why += _onward(end)
    return Step(why, Claim(DESYNC, why, evidence, end.ranks, confidence=confidence))


def _certainty(case: Case, end: Sink) -> float:
    """Best where the laggard is seen elsewhere: in another group, or in a call of its own."""
    if end.cycle:
        return 0.75
    elsewhere = {
        e.rank for e in case.evidence if e.klass == "unknown/peer-died" or e.fields.get("culprits")
    }
    return 1.0 if end.parked or set(end.ranks) & elsewhere else 0.85


def _onward(end: Sink) -> str:
    if len(end.path) == 1 and not end.cycle:
        return ""
    chain = " → ".join(end.path)
    if end.cycle:
        return f"; they wait for each other ({chain}): a deadlock of the order of collectives"
    return f"; followed through groups {chain} to {told(end.ranks)}"


def _absent(case: Case, groups: Mapping[str, Group], waited: list[Evidence]) -> Step:
    default = groups.get(DEFAULT) or groups.get(UNNAMED)
    speaking = set(default.standing) if default else set()
    apart = parted(case)
    if apart is not None:
        return Step(apart.why, apart)
    awaited = _awaited(case)
    if awaited:
        why = f"{told(awaited)} is waited for in a receive or a send and waits for nobody itself"
        return Step(why, Claim(HANG, why, _shown(waited, ()), awaited, confidence=0.9))
    speaking |= speakers(waited) | victims(case)
    other_words = speakers(e for e in case.evidence if e.role is not Role.ROOT) - speaking
    missing = silent(case, speaking)
    if missing and len(groups) <= 1:
        seen = sorted(set(missing) & other_words)
        early = left_early(case, missing)
        if early:
            why = f"{told(early)} had ended with exit code 0 while the others waited"
            return Step(why, Claim(DESYNC, why, _shown(waited, ()), early))
        why = f"{len(speaking)} ranks report that they waited, {told(missing)} nothing at all"
        if seen:
            why += f" ({told(seen)} printed other lines)"
        return Step(why, Claim(HANG, why, _shown(waited, ()), missing))
    klass = HANG if waited and all(e.klass == HANG for e in waited) else TIMEOUT
    joined = any(group.pending() for group in groups.values())
    why = (
        "every rank that is seen had joined the collective and it never completed: the network or "
        "a GPU, or a rank whose lines are not here"
        if joined
        else "ranks waited, and nothing tells for whom"
    )
    return Step(why, Claim(klass, why, _shown(waited, ()), confidence=0.9))


def _awaited(case: Case, begin: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The one rank at the end of the waits for point-to-point messages, from `begin` on."""
    edges = {
        e.rank: int(peer)
        for e in case.evidence
        if e.rank is not None and (peer := e.fields.get("peer_rank", "")).isdecimal()
    }
    ends = set()
    for rank in begin or tuple(edges):
        last, path = rank, {rank}
        while last in edges and edges[last] not in path:
            last = edges[last]
            path.add(last)
        if last not in edges and last != rank:
            ends.add(last)
    waiting = {r for g in by_group(case.works).values() for r in g.pending()}
    return tuple(ends) if len(ends) == 1 and (begin or not ends & waiting) else ()


def _slow_storage(case: Case) -> Evidence | None:
    """A save that began when the wait began."""
    starts = [start_of_hang(w.at, w.timeout_ms) for w in case.works]
    begin = min((s for s in starts if s is not None), default=None)
    saves = [e for e in (*case.context, *case.evidence) if e.klass == SLOW]
    if begin is None or not saves:
        return None
    near = [e for e in saves if e.at is not None and abs(e.at - begin) <= NEAR_S]
    return min(near, key=lambda e: abs((e.at or 0.0) - begin), default=None)


def _stored(slow: Evidence, waited: list[Evidence]) -> Step:
    rank = slow.rank if slow.rank is not None else 0
    why = f"rank {rank} began to save just when the others began to wait"
    if slow.rank is None:
        why += " (the line names no rank: rank 0 saves in nearly all programs)"
    shown = (slow, *_shown(waited, ()))
    return Step(why, Claim(SLOW, why, shown, (rank,)))


def _shown(waited: list[Evidence], ranks: tuple[int, ...]) -> tuple[Evidence, ...]:
    """A line or two of those that are behind, then of those that waited."""
    behind = set(ranks)
    mine = [e for e in waited if e.rank in behind][:SHOWN]
    rest = [e for e in waited[: 2 * SHOWN] if e.rank not in behind]
    return tuple((mine + rest)[:SHOWN])
