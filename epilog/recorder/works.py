"""Dumps → Work: each rank's place in each process group, and the operation it waits in. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from epilog.model import Work
from epilog.recorder.dump import Dump, Entry, Status
from epilog.recorder.match import numel

Labels = Mapping[tuple[int, str], str]
ROOTED = ("broadcast", "_broadcast", "reduce", "_reduce_oop", "gather", "scatter", "send", "recv")
"""Operations that may complete on one rank while another has not come yet."""
SLACK_S = 1.0
"""Between the clocks of two nodes."""


class Late(msgspec.Struct, frozen=True):
    """A rank that issued a collective only after the others' time for it was up."""

    rank: int
    group: str
    sequence: int
    after_s: float


def without_late(dumps: Sequence[Dump], labels: Labels) -> tuple[list[Dump], list[Late]]:
    """The dumps as they stood when the first rank gave up, and who came later.

    A rank that hangs and wakes up joins a collective that is dead already; its dump then looks
    like everybody else's but for the time.
    """
    limits: dict[tuple[str, int], float] = {}
    begins: dict[tuple[str, int], float] = {}
    for dump in dumps:
        for e in _timed(dump):
            key = (labels.get((dump.rank, e.group), e.group), e.sequence)
            begins[key] = min(begins.get(key, e.created_at or 0.0), e.created_at or 0.0)
            until = (e.created_at or 0.0) + (e.timeout_ms or 0) / 1e3 + SLACK_S
            limits[key] = min(limits.get(key, until), until)
    found: list[Late] = []
    kept = []
    for dump in dumps:
        first: dict[str, Late] = {}
        for e in _timed(dump):
            label = labels.get((dump.rank, e.group), e.group)
            key = (label, e.sequence)
            real = not e.done or e.backend == "gloo"
            if real and e.group not in first and (e.created_at or 0.0) > limits[key]:
                after = (e.created_at or 0.0) - begins[key]
                first[e.group] = Late(dump.rank, label, e.sequence, after)
        found += first.values()
        kept.append(_before(dump, first) if first else dump)
    return kept, found


def works_of(dumps: Sequence[Dump], labels: Labels) -> list[Work]:
    """One Work for each rank and group that has enqueued anything."""
    entries: dict[tuple[int, str], list[Entry]] = {}
    standing: dict[tuple[int, str], tuple[int, int]] = {}
    for dump in dumps:
        by_group: dict[str, list[Entry]] = {name: [] for name in dump.groups}
        for entry in dump.entries:
            if not entry.p2p:
                by_group.setdefault(entry.group, []).append(entry)
        for name, mine in by_group.items():
            status = dump.status.get(name)
            told = [status.enqueued, status.completed] if status else [None, None]
            enqueued = _most([told[0], *(e.sequence for e in mine)])
            completed = _most([told[1], *(e.sequence for e in mine if e.done)])
            key = (dump.rank, labels.get((dump.rank, name), name))
            if enqueued is not None:
                entries[key] = mine
                standing[key] = (enqueued, completed or 0)
    lowest: dict[str, int] = {}
    for (_, label), (enqueued, _) in standing.items():
        lowest[label] = min(lowest.get(label, enqueued), enqueued)
    return [
        _work(rank, label, enqueued, _honest(completed, lowest[label], mine), mine)
        for (rank, label), mine in entries.items()
        for enqueued, completed in (standing[rank, label],)
    ]


def waits(dump: Dump) -> list[Entry]:
    """Point-to-point operations that never completed on this rank, oldest first."""
    return sorted((e for e in dump.entries if e.p2p and not e.done), key=lambda e: e.record)


def _timed(dump: Dump) -> list[Entry]:
    return [e for e in dump.entries if not e.p2p and e.created_at and e.timeout_ms]


def _before(dump: Dump, first: Mapping[str, Late]) -> Dump:
    """Without what was issued too late, and what came after it in the same group."""
    entries = tuple(
        e
        for e in dump.entries
        if e.p2p or e.group not in first or e.sequence < first[e.group].sequence
    )
    status = {
        name: _until(s, first[name].sequence - 1) if name in first else s
        for name, s in dump.status.items()
    }
    return msgspec.structs.replace(dump, entries=entries, status=status)


def _until(status: Status, most: int) -> Status:
    enqueued, completed = status.enqueued, status.completed
    return Status(
        None if enqueued is None else min(enqueued, most),
        None if completed is None else min(completed, most),
    )


def _honest(completed: int, lowest: int, mine: list[Entry]) -> int:
    """gloo counts what failed as completed. What a member has not issued cannot have completed."""
    following = [e for e in mine if e.sequence == lowest + 1]
    if completed <= lowest or not following:
        return completed
    failed = following[0].backend == "gloo" and not following[0].op.startswith(ROOTED)
    return lowest if failed else completed


def _work(rank: int, group: str, enqueued: int, completed: int, mine: list[Entry]) -> Work:
    waiting = [e for e in mine if e.sequence > completed]
    if not waiting:
        return Work(rank, group, enqueued, completed)
    first = min(waiting, key=lambda e: (e.sequence, e.record))
    return Work(
        rank=rank,
        group=group,
        enqueued=enqueued,
        completed=completed,
        op=first.op,
        numel_in=numel(first.inputs) if first.inputs else None,
        numel_out=numel(first.outputs) if first.outputs else None,
        shape=" ".join(str(list(s)) for s in first.inputs[:4]) or None,
        dtype=" ".join(first.input_types[:4]) or None,
        timeout_ms=first.timeout_ms,
        at=first.created_at,
        stack=first.frames,
    )


def _most(values: list[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)
