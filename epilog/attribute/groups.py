"""Where every rank stood in every process group. Sequence numbers of two groups never mix."""

import re
from collections.abc import Iterable

import msgspec

from epilog.model import Work

DEFAULT = "0"
UNNAMED = "unknown"
"""Lines that do not tell their group may stem from several: their numbers are not compared."""
_GUID = re.compile(r"(?:PG GUID\s*)?(\d+)\s*\(([^)]*)\)")
_PLAIN = re.compile(r"(?:PG(?: ID)?\s*)?(\d+)$")


class Group(msgspec.Struct, frozen=True):
    """The newest standing of each rank of one group."""

    name: str
    standing: dict[int, Work]

    def top(self) -> int | None:
        """The highest number that any rank enqueued."""
        return max(
            (n for w in self.standing.values() if (n := reached(w)) is not None), default=None
        )

    def behind(self) -> tuple[int, ...]:
        """Ranks that did not enqueue what others had."""
        top = self.top()
        if top is None or self.name == UNNAMED:
            return ()
        waiting = self.waited_for()
        return tuple(
            sorted(
                rank
                for rank, w in self.standing.items()
                if (n := reached(w)) is not None and n < (top if waiting is None else waiting)
            )
        )

    def lower(self) -> tuple[int, ...]:
        """A minority that issued fewer operations than all the others, who issued alike."""
        counts: dict[int, list[int]] = {}
        for rank, w in self.standing.items():
            if w.enqueued is not None:
                counts.setdefault(w.enqueued, []).append(rank)
        if len(counts) != 2:
            return ()
        fewer, more = counts[min(counts)], counts[max(counts)]
        return tuple(sorted(fewer)) if len(fewer) * 2 < len(more) else ()

    def waited_for(self) -> int | None:
        """The number at which most ranks that are waiting have stopped."""
        counts: dict[int, int] = {}
        for w in self.standing.values():
            n = stuck_at(w)
            if n is not None:
                counts[n] = counts.get(n, 0) + 1
        return max(counts, key=lambda n: (counts[n], -n), default=None)

    def pending(self) -> tuple[int, ...]:
        """Ranks with an operation that they enqueued and that never completed."""
        return tuple(sorted(rank for rank, w in self.standing.items() if is_pending(w)))


def group_name(text: str) -> str:
    """`PG ID 0 PG GUID 0(default_pg)`, `0 (default_pg)`, `PG 0` and `default_pg` are one group."""
    text = text.strip()
    found = _GUID.search(text) or _PLAIN.match(text)
    if found:
        return found[1]
    return DEFAULT if not text or "default" in text else text


def by_group(works: Iterable[Work]) -> dict[str, Group]:
    """All groups; of several records of a rank the furthest one counts, its details kept."""
    standing: dict[str, dict[int, Work]] = {}
    for work in works:
        ranks = standing.setdefault(group_name(work.group), {})
        held = ranks.get(work.rank)
        ranks[work.rank] = work if held is None else _merged(held, work)
    return {name: Group(name, ranks) for name, ranks in standing.items()}


def reached(work: Work) -> int | None:
    """The last number this rank enqueued, or at least one it must have enqueued."""
    if work.enqueued is not None:
        return work.enqueued
    return stuck_at(work)


def stuck_at(work: Work) -> int | None:
    """The operation this rank waits in; None where it waits in none."""
    if not is_pending(work):
        return None
    return work.completed + 1 if work.completed is not None else work.enqueued


def is_pending(work: Work) -> bool:
    """Whether the rank has something enqueued that never completed."""
    if work.enqueued is None:
        return work.completed is not None and work.op is not None
    return work.completed is None or work.completed < work.enqueued


def _merged(held: Work, new: Work) -> Work:
    enqueued = _most(held.enqueued, new.enqueued)
    completed = _most(held.completed, new.completed)
    changes = {
        name: getattr(new, name)
        for name in ("op", "numel_in", "numel_out", "shape", "dtype", "timeout_ms", "stack")
        if not getattr(held, name) and getattr(new, name)
    }
    at = min((t for t in (held.at, new.at) if t is not None), default=None)
    return msgspec.structs.replace(held, enqueued=enqueued, completed=completed, at=at, **changes)


def _most(one: int | None, other: int | None) -> int | None:
    known = [n for n in (one, other) if n is not None]
    return max(known, default=None)
