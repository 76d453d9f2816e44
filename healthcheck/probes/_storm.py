"""A hundred thousand lines that say the same become a few events, first and last among them."""

import re

import msgspec

from healthcheck.model import KernelEvent

SAME_S = 10.0
"""Like lines closer than this are one event."""
PER_KEY = 8
MAX_KEYS = 512
MAX_EVENTS = 192
"""Below what a baseline remembers (256), so that one reading never makes it forget all else."""

# Figures that differ from line to line, but not those that carry the meaning: the Xid that a
# line names, and a severity.
_FIGURES = re.compile(r"(?<!Xid )(?<!everity )(?<!to )\b(?:0x[0-9a-f]+|[0-9a-f]{8}|\d+)\b")

_Key = tuple[str, int | None, str, str]


class Storm:
    """Takes events in the order of the log and keeps what a reader needs of them."""

    def __init__(self) -> None:
        self._kept: dict[_Key, list[KernelEvent]] = {}

    def add(self, event: KernelEvent) -> None:
        """Keep an event, or count it with one that says the same."""
        key = self._key(event)
        if key is None:
            return
        kept = self._kept.setdefault(key, [])
        if kept and event.uptime_s - (kept[-1].until_s or kept[-1].uptime_s) < SAME_S:
            kept[-1] = _folded(kept[-1], event)
            return
        if len(kept) >= PER_KEY:
            # The middle is counted, the first ones and the last one stay.
            kept[-2:] = [_folded(kept[-2], kept[-1])]
        kept.append(event)

    def _key(self, event: KernelEvent) -> _Key | None:
        key = (event.kind, event.code, event.subject, _FIGURES.sub("#", event.message)[:120])
        if key in self._kept or len(self._kept) < MAX_KEYS:
            return key
        short = (*key[:3], "")
        return short if short in self._kept or len(self._kept) < 4 * MAX_KEYS else None

    def events(self, addresses: dict[str, str]) -> tuple[KernelEvent, ...]:
        """What was kept, in the log's order; `addresses` maps GPU UUIDs to PCI addresses."""
        events = sorted(
            (event for group in self._kept.values() for event in group), key=lambda e: e.sequence
        )
        for share in (16, 8, 4, 2, 1):
            if len(events) > MAX_EVENTS:
                events = _at_most(share, events)
        if len(events) > MAX_EVENTS:
            half = MAX_EVENTS // 2
            events = events[:half] + events[-half:]
        return tuple(
            msgspec.structs.replace(event, subject=addresses[event.subject])
            if event.subject in addresses
            else event
            for event in events
        )


def _folded(into: KernelEvent, event: KernelEvent) -> KernelEvent:
    return msgspec.structs.replace(
        into, count=into.count + event.count, until_s=event.until_s or event.uptime_s
    )


def _at_most(share: int, events: list[KernelEvent]) -> list[KernelEvent]:
    """No more than `share` events of one code and subject: its first and last ones.

    So that a code that comes once is not lost among thousands of lines of another.
    """
    groups: dict[tuple[str, int | None, str], list[KernelEvent]] = {}
    for event in events:
        groups.setdefault((event.kind, event.code, event.subject), []).append(event)
    kept = []
    for group in groups.values():
        first, rest = group[: (share + 1) // 2], group[(share + 1) // 2 :]
        last = rest[len(rest) - share // 2 :]
        for event in rest[: len(rest) - len(last)]:
            first[-1] = _folded(first[-1], event)
        kept += [*first, *last]
    return sorted(kept, key=lambda event: event.sequence)
