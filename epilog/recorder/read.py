"""Files of dumps → what they say, one refused file never hiding the others."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO

import msgspec

from epilog.model import Evidence, Role, Work
from epilog.recorder.dump import Dump, decode_dump
from epilog.recorder.match import (
    Mismatch,
    Side,
    collectives,
    describe,
    label_groups,
    mismatches,
    sides,
    where,
)
from epilog.recorder.pickle_reader import Refused
from epilog.recorder.works import Late, waits, without_late, works_of

MAX_BYTES = 64 << 20
"""Of one dump; 20,000 entries with stacks are 5 MB."""
MAX_DUMPS = 16_384
MAX_EVIDENCE = 64
MAX_NOTES = 32
_FEW = 16


class RecorderResult(msgspec.Struct, frozen=True):
    """What the dumps say. `notes`: files that were refused or left out, for the reader."""

    works: tuple[Work, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()


class _Late(Exception):  # noqa: N818 - an answer, not an error
    """The time is up."""


def read_dumps(
    files: Iterable[tuple[str, BinaryIO]], deadline: float | None = None
) -> RecorderResult:
    """Works, evidence and notes of a set of dumps, complete or not.

    `deadline` in monotonic seconds: what is read by then is used, and a note tells how much. Never
    raises for anything a file holds.
    """
    dumps, notes = _load(files, deadline)
    if not dumps:
        return RecorderResult(notes=tuple(notes))
    labels = label_groups(dumps)
    dumps, late = without_late(dumps, labels)
    works = works_of(dumps, labels)
    standing = {(w.rank, w.group): (w.enqueued, w.completed) for w in works}
    names = {dump.rank: dump.file for dump in dumps}
    found = [_mismatch(m, names) for m in mismatches(collectives(dumps, labels))]
    for side in sides(dumps, labels, standing):
        found += _side(side, dumps, works, late)
    found += _parked(dumps)
    return RecorderResult(tuple(works), tuple(found[:MAX_EVIDENCE]), tuple(notes))


def _load(
    files: Iterable[tuple[str, BinaryIO]], deadline: float | None
) -> tuple[list[Dump], list[str]]:
    dumps: dict[int, Dump] = {}
    notes: list[str] = []
    refused = 0

    def tick() -> None:
        if deadline is not None and time.monotonic() > deadline:
            raise _Late

    for count, (name, file) in enumerate(files):
        try:
            if count >= MAX_DUMPS:
                raise _Late
            tick()
            dump = _one(name, file, tick)
        except _Late:
            notes.append(f"the time was up after {len(dumps)} dumps; the rest was not read")
            break
        except (Refused, OSError) as error:
            refused += 1
            if refused <= MAX_NOTES:
                notes.append(f"{name}: not read: {error}")
            continue
        held = dumps.get(dump.rank)
        # A pickle carries stacks, JSON does not; of two files of a rank the richer one counts.
        if held is None or _worth(dump) > _worth(held):
            dumps[dump.rank] = dump
    if refused > MAX_NOTES:
        notes.append(f"{refused - MAX_NOTES} more dumps were refused")
    return [dumps[rank] for rank in sorted(dumps)], notes


def _one(name: str, file: BinaryIO, tick: Callable[[], None]) -> Dump:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refused(f"larger than {MAX_BYTES >> 20} MiB")
    if not data:
        raise Refused("empty")
    return decode_dump(name, data, tick)


def _worth(dump: Dump) -> tuple[int, int]:
    return sum(1 for e in dump.entries[-64:] if e.frames), len(dump.entries)


def _mismatch(m: Mismatch, names: Mapping[int, str]) -> Evidence:
    """The odd ranks are named as culprits, unless nobody can say which side is the odd one."""
    what = {
        "op": "another operation",
        "order": "its collectives in another order, or left one out",
        "size": "another number of elements",
        "dtype": "another data type",
    }[m.kind]
    who = _ranks(m.odd)
    at = f", called at {where(m.mine)}" if where(m.mine) else ""
    tie = "; a tie, so either side may be the odd one" if m.tie else ""
    fields = {"pg": m.group, "seq": str(m.sequence), "mismatch": m.kind, "op": m.mine.op}
    if not m.tie:
        fields["culprits"] = ", ".join(map(str, m.odd))
    else:
        fields["minority"] = ", ".join(map(str, m.odd))
    return Evidence(
        file=names[m.odd[0]],
        line=0,
        role=Role.ROOT,
        klass="user/desync",
        text=(
            f"{who} issued {what} in collective {m.sequence} of group {m.group}: "
            f"{describe(m.mine)}, where {m.others} other(s) issued {describe(m.theirs)}{tie}{at}"
        ),
        signature=f"flight-recorder-{m.kind}",
        rank=m.odd[0] if len(m.odd) == 1 and not m.tie else None,
        at=m.mine.created_at,
        fields=fields,
    )


def _side(side: Side, dumps: list[Dump], works: list[Work], late: list[Late]) -> list[Evidence]:
    """Who is behind, with the place in his program where he was seen last, and who is missing."""
    found = []
    by_rank = {dump.rank: dump for dump in dumps}
    example = next((w for w in works if w.group == side.group and w.rank in side.pending), None)
    op = f" ({example.op} {example.shape or ''})".replace(" )", ")") if example else ""
    for rank in side.behind[:_FEW] if side.pending else ():
        mine = next((w for w in works if w.rank == rank and w.group == side.group), None)
        reached = (mine.enqueued if mine else None) or 0
        last = max(by_rank[rank].entries, key=lambda e: e.record, default=None)
        woke = next((x for x in late if x.rank == rank and x.group == side.group), None)
        seen = f"; it came {woke.after_s:.0f} s later, too late" if woke else ""
        seen += f"; its last call before was {last.op}" if last else ""
        seen += f" at {where(last)}" if last and where(last) else ""
        found.append(
            Evidence(
                file=by_rank[rank].file,
                line=0,
                role=Role.SYMPTOM,
                klass="unknown/hang",
                text=f"rank {rank} has issued {reached} collectives of group {side.group}, others "
                f"wait in number {side.top}{op}{seen}",
                signature="flight-recorder-behind",
                rank=rank,
                fields={"pg": side.group, "seq": str(side.top), "enqueued": str(reached)},
            )
        )
    if side.missing:
        found.append(
            Evidence(
                file=dumps[0].file,
                line=0,
                role=Role.SYMPTOM,
                klass="unknown/peer-died",
                text=f"{_ranks(side.missing)} of group {side.group} left no dump; "
                f"{len(side.members) - len(side.missing)} others did, and had got to "
                f"collective {side.top}{op}",
                signature="flight-recorder-missing",
                fields={
                    "pg": side.group,
                    "seq": str(side.top),
                    "absent": ", ".join(map(str, side.missing[:_FEW])),
                    **({"nranks": str(len(side.members))} if side.members[0] == 0 else {}),
                },
            )
        )
    return found


def _parked(dumps: list[Dump]) -> list[Evidence]:
    """Ranks that wait in a send or a receive, with the peer where its rank is known."""
    found = []
    for dump in dumps:
        for entry in waits(dump)[:1]:
            peer = _peer(dump, entry.group, entry.op)
            found.append(
                Evidence(
                    file=dump.file,
                    line=0,
                    role=Role.SYMPTOM,
                    klass="unknown/hang",
                    text=f"rank {dump.rank} waits in {describe(entry)} of group {entry.group}"
                    + (f" for rank {peer}" if peer is not None else ""),
                    signature="flight-recorder-p2p",
                    rank=dump.rank,
                    at=entry.created_at,
                    fields={"pg": entry.group, "op": entry.op}
                    | ({"peer_rank": str(peer)} if peer is not None else {}),
                )
            )
    return found[:_FEW]


def _peer(dump: Dump, group: str, op: str) -> int | None:
    """`recv 0<-2` and `send 1->2` count within the group; its members are global ranks."""
    _, _, arrow = op.partition(" ")
    text = arrow.partition("->")[2] or arrow.partition("<-")[2]
    members = dump.groups[group].members if group in dump.groups else ()
    if not text.isdecimal() or len(text) > 8:
        return None
    number = int(text)
    return members[number] if number < len(members) else (None if members else number)


def _ranks(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ranks[:_FEW]))
    more = f" and {len(ranks) - _FEW} more" if len(ranks) > _FEW else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
