"""Who says nothing at all: a rank that is not there prints no time-out."""

from collections.abc import Iterable

from epilog.attribute.case import Case, numbers
from epilog.model import Evidence, Role

_VICTIMS = frozenset(
    {"unknown/nccl-timeout", "unknown/hang", "unknown/heartbeat", "unknown/peer-died",
     "network/rendezvous", "network/ib-retry"}
)  # fmt: skip
MOST_SILENT = 0.25
"""Of a world whose size is only inferred; with the size given, up to a half may be silent."""


def silent(case: Case, speaking: Iterable[int], least: int = 2) -> tuple[int, ...]:
    """Members of the world without a line, where enough others spoke to make that mean something.

    An excerpt or a single task's file shows few ranks: then silence says nothing.
    """
    spoke = set(speaking)
    absent = {r for e in case.evidence for r in numbers(e.fields.get("absent"))} - spoke
    if absent and len(absent) <= max(1, len(spoke)):
        return tuple(sorted(absent))
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


def left_early(case: Case, missing: Iterable[int]) -> tuple[int, ...]:
    """Those of the silent that ended with exit code 0.

    Launchers tell of every task that ended badly: who is not in the list of srun or torchrun
    while all others are has ended well.
    """
    clean = {x.rank for x in case.exits if x.exit_code == 0 and not x.signal}
    bad = {x.rank for x in case.exits if x.rank is not None and (x.exit_code or x.signal)}
    world, _ = world_size(case)
    silent_ones = set(missing)
    if world is not None and len(bad) > 1 and bad >= set(range(world)) - silent_ones:
        clean |= silent_ones - bad
    return tuple(sorted(silent_ones & clean))


def by_launcher(e: Evidence) -> bool:
    """Whether a launcher tells of a process, rather than the process of itself."""
    return not {"exitcode", "tasks", "signal"}.isdisjoint(e.fields)


def victims(case: Case) -> set[int]:
    """Ranks that say themselves that they waited or lost a peer."""
    return speakers(
        e
        for e in case.evidence
        if e.klass in _VICTIMS and e.role is not Role.ROOT and not by_launcher(e)
    )


def speakers(evidence: Iterable[Evidence]) -> set[int]:
    """Ranks with any line among these."""
    return {e.rank for e in evidence if e.rank is not None}
