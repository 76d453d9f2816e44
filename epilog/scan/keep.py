"""Keeping a bounded part of what was seen: the first and the last of each signature and rank."""

from collections import deque

from epilog.model import Evidence
from epilog.scan.result import Source
from epilog.scan.sight import Sight
from epilog.scan.text import MAX_TEXT
from epilog.scan.times import parse_time

MAX_KEPT = 24_000
"""Evidence kept of all files together."""
MAX_JOINED = 4096
"""Characters of a field that following lines add to."""


class Keeper:
    """The evidence of one file."""

    def __init__(self, source: Source, keep: int, room: int, around: float | None) -> None:
        self._source, self._keep, self._room, self._around = source, keep, room, around
        self._first: dict[tuple[object, ...], list[Sight]] = {}
        self._last: dict[tuple[object, ...], deque[Sight]] = {}
        self._newest: dict[str, Sight] = {}
        self.kept = 0

    def add(self, sight: Sight) -> None:
        """Keep `sight` if it is among the first or the last of its kind."""
        signature = sight.signature
        key: tuple[object, ...] = (signature.id, sight.rank, sight.label, sight.host)
        if self.kept >= self._room:
            key = (signature.id,)
        first = self._first.setdefault(key, [])
        if len(first) < self._keep:
            first.append(sight)
            self.kept += 1
        else:
            last = self._last.setdefault(key, deque(maxlen=self._keep))
            self.kept += len(last) < self._keep
            last.append(sight)
        self._newest[signature.id] = sight

    def extend(self, sight: Sight) -> None:
        """Add the fields of a following line to the newest sight that it belongs to."""
        newest = [self._newest[i] for i in sight.signature.extends if i in self._newest]
        if not newest:
            return
        target = max(newest, key=lambda s: s.line)
        for name, value in sight.fields.items():
            had = target.fields.get(name)
            joined = value if had is None else f"{had}, {value}"
            if len(joined) <= MAX_JOINED and value != had:
                target.fields[name] = joined

    def evidence(self) -> list[Evidence]:
        """All that was kept, in order of line."""
        sights = [s for part in (self._first, self._last) for kept in part.values() for s in kept]
        sights.sort(key=lambda s: s.line)
        return [e for s in sights if (e := self._evidence(s))]

    def _evidence(self, sight: Sight) -> Evidence | None:
        verdict = sight.signature.verdict_for(sight.fields)
        if verdict is None:
            return None
        source, time = self._source, sight.fields.get("time")
        at = parse_time(time, self._around) if time else None
        return Evidence(
            file=source.name,
            line=sight.line,
            role=verdict.role,
            klass=verdict.klass,
            text=sight.text[:MAX_TEXT],
            signature=sight.signature.id,
            rank=source.rank if sight.rank is None else sight.rank,
            local_rank=sight.local_rank,
            label=source.label if sight.label is None else sight.label,
            host=source.host if sight.host is None else sight.host,
            at=sight.prefix.at if at is None else at,
            fields=sight.fields,
            fact=source.fact,
        )
