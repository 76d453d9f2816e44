"""Who says nothing at all: a rank that is not there prints no time-out."""

from collections.abc import Iterable

from epilog.attribute.case import Case
from epilog.model import Evidence

MOST_SILENT = 0.25
"""Of a world whose size is only inferred; with the size given, up to a half may be silent."""


def silent(case: Case, speaking: Iterable[int], least: int = 2) -> tuple[int, ...]:
    """Members of the world without a line, where enough others spoke to make that mean something.

    An excerpt or a single task's file shows few ranks: then silence says nothing.
    """
    spoke = set(speaking)
    if len(spoke) < least:
        return ()
    world, given = world_size(case)
    if world is None:
        return ()
    missing = sorted(set(range(world)) - spoke)
    limit = 0.5 if given else MOST_SILENT
    if not missing or len(missing) > max(1, int(world * limit)) or len(missing) >= len(spoke):
        return ()
    return tuple(missing)


def world_size(case: Case) -> tuple[int | None, bool]:
    """The number of ranks, and whether it was told (else it is the highest rank seen plus one)."""
    facts = case.facts
    if facts.world_size:
        return facts.world_size, True
    told = [int(v[:8]) for e in case.evidence if (v := e.fields.get("nranks", "")).isdecimal()]
    if told:
        return max(told), True
    counts = facts.tasks_per_node
    seen = [w.rank for w in case.works]
    seen += [e.rank for e in case.evidence if e.rank is not None]
    highest = max(seen, default=-1)
    if counts and facts.nodes:
        tasks = sum(counts) if len(counts) > 1 else counts[0] * len(facts.nodes)
        if tasks > highest and tasks > len(facts.nodes):
            return tasks, True
    return (highest + 1, False) if highest > 0 else (None, False)


def speakers(evidence: Iterable[Evidence]) -> set[int]:
    """Ranks with any line among these."""
    return {e.rank for e in evidence if e.rank is not None}
