"""What the steps hand to each other: the case as it was read, and what a step claims."""

from collections.abc import Iterable

import msgspec

from epilog.attribute.places import Places
from epilog.model import Evidence, JobFacts, Role, TaskExit, Work


class Case(msgspec.Struct, frozen=True):
    """All that is known of one attempt of a job. Evidence carries ranks and hosts already.

    `context` are lines that healthy jobs print as well (a save begins).
    """

    facts: JobFacts
    evidence: tuple[Evidence, ...]
    works: tuple[Work, ...] = ()
    exits: tuple[TaskExit, ...] = ()
    places: Places = Places()
    context: tuple[Evidence, ...] = ()

    def of(self, *roles: Role) -> list[Evidence]:
        """Evidence with one of these roles, in the order it was read."""
        return [e for e in self.evidence if e.role in roles]

    def category(self, name: str) -> list[Evidence]:
        """Evidence of one category of classes."""
        return [e for e in self.evidence if e.klass.startswith(f"{name}/")]


class Claim(msgspec.Struct, frozen=True):
    """A step's answer: what failed, where it began, and how far that can be trusted (0 to 1).

    `nodes` only where the evidence itself names them; those of the ranks are added at the end.
    `note`: what the owner is told in place of the class's own advice.
    """

    klass: str
    why: str
    evidence: tuple[Evidence, ...] = ()
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    confidence: float = 1.0
    note: str = ""


class Step(msgspec.Struct, frozen=True):
    """One step of the search: what it concluded in words, and its claim if it ends the search."""

    said: str
    claim: Claim | None = None


def ranks_of(evidence: Iterable[Evidence]) -> tuple[int, ...]:
    """The ranks that are named, in order of number; srun names several tasks in one line."""
    ranks: set[int] = set()
    for e in evidence:
        ranks.update((e.rank,) if e.rank is not None else ())
        ranks.update(numbers(e.fields.get("task_ranks")))
    return tuple(sorted(ranks))


def hosts_of(evidence: Iterable[Evidence]) -> tuple[str, ...]:
    """The hosts that are named, in the order they were met."""
    return tuple(dict.fromkeys(e.host for e in evidence if e.host))


def numbers(text: str | None) -> tuple[int, ...]:
    """`4, 6` or `0-3, 7` as ranks; at most 65,536 of them, anything else is left out."""
    ranks: list[int] = []
    for part in (text or "").replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and len(first) < 8 and (not last or last.isdecimal()):
            end = int(last[:8]) if last else int(first)
            ranks += range(int(first), min(end, int(first) + 65_535) + 1)
    return tuple(sorted(set(ranks)))


def told(ranks: Iterable[int], most: int = 8) -> str:
    """`rank 3`, `ranks 0, 4`, or `ranks 0 to 6, 8 and 12 more` for a reader."""
    spans = _spans(sorted(set(ranks)))
    if not spans:
        return "no rank"
    one = len(spans) == 1 and spans[0][0] == spans[0][1]
    words = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a} to {b}" for a, b in spans]
    left = sum(b - a + 1 for a, b in spans[most:])
    more = f" and {left} more" if left else ""
    return ("rank " if one else "ranks ") + ", ".join(words[:most]) + more


def _spans(ranks: list[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1] = (spans[-1][0], rank)
        else:
            spans.append((rank, rank))
    return spans
