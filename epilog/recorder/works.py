"""Dumps → Work: each rank's place in each process group, and the operation it waits in. Pure."""

from collections.abc import Mapping, Sequence

from epilog.model import Work
from epilog.recorder.dump import Dump, Entry
from epilog.recorder.match import numel


def works_of(dumps: Sequence[Dump], labels: Mapping[tuple[int, str], str]) -> list[Work]:
    """One Work for each rank and group that has enqueued anything."""
    found = []
    for dump in dumps:
        by_group: dict[str, list[Entry]] = {name: [] for name in dump.groups}
        for entry in dump.entries:
            if not entry.p2p:
                by_group.setdefault(entry.group, []).append(entry)
        for name, entries in by_group.items():
            status = dump.status.get(name)
            told = [status.enqueued, status.completed] if status else [None, None]
            enqueued = _most([told[0], *(e.sequence for e in entries)])
            completed = _most([told[1], *(e.sequence for e in entries if e.done)])
            if enqueued is None:
                continue
            waiting = [e for e in entries if not e.done and e.sequence > (completed or 0)]
            label = labels.get((dump.rank, name), name)
            found.append(_work(dump.rank, label, enqueued, completed or 0, waiting))
    return found


def waits(dump: Dump) -> list[Entry]:
    """Point-to-point operations that never completed on this rank, oldest first."""
    return sorted((e for e in dump.entries if e.p2p and not e.done), key=lambda e: e.record)


def _work(rank: int, group: str, enqueued: int, completed: int, waiting: list[Entry]) -> Work:
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
