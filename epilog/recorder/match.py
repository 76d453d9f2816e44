"""Dumps of all ranks side by side: which operation did not match, who is behind, who is missing.

No rank is taken for innocent: at one (group, sequence number) the minority is the odd one, and
where there is no majority both sides are named. Works on incomplete sets. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from epilog.recorder.dump import Dump, Entry

SAME_SIZES = frozenset(
    {
        "all_reduce", "allreduce_coalesced", "all_reduce_barrier", "barrier", "broadcast",
        "_broadcast_oop", "reduce", "_reduce_oop", "_all_gather_base", "all_gather_single",
        "all_gather_into_tensor_coalesced", "_reduce_scatter_base", "reduce_scatter_single",
        "reduce_scatter_tensor_coalesced",
    }
)  # fmt: skip
"""Operations that need as many elements on every rank. The others (all_to_all, scatter, gather,
the v forms, NCCL's all_gather of a list, which becomes broadcasts) may lawfully differ."""
_SHOWN_FRAMES = 3


class Mismatch(msgspec.Struct, frozen=True):
    """One collective that was not the same on all ranks.

    `kind` op, order, size or dtype. `odd` are the minority; where `tie`, the side of the higher
    ranks, and nobody can say which side is wrong. `theirs` is an example of the majority.
    """

    kind: str
    group: str
    sequence: int
    odd: tuple[int, ...]
    mine: Entry
    theirs: Entry
    others: int
    tie: bool = False


class Side(msgspec.Struct, frozen=True):
    """What a set of dumps says of one group.

    `behind`: ranks that have not enqueued what others had. `missing`: members without a dump.
    """

    group: str
    members: tuple[int, ...]
    top: int
    behind: tuple[int, ...]
    missing: tuple[int, ...]
    pending: tuple[int, ...]


def label_groups(dumps: Sequence[Dump]) -> dict[tuple[int, str], str]:
    """(rank, name) → one label a group. Names repeat where ranks build groups by themselves, so
    groups of one name and other members are told apart by their lowest rank.
    """
    members: dict[str, set[tuple[int, ...]]] = {}
    for dump in dumps:
        for group in dump.groups.values():
            members.setdefault(group.name, set()).add(group.members)
    labels = {}
    for dump in dumps:
        for group in dump.groups.values():
            several = len(members[group.name] - {()}) > 1 and group.members
            label = f"{group.name}@{group.members[0]}" if several else group.name
            labels[dump.rank, group.name] = label
    return labels


def collectives(
    dumps: Sequence[Dump], labels: Mapping[tuple[int, str], str]
) -> dict[str, dict[int, dict[int, list[Entry]]]]:
    """group → sequence → rank → the entries of that collective (several where coalesced)."""
    table: dict[str, dict[int, dict[int, list[Entry]]]] = {}
    for dump in dumps:
        for entry in dump.entries:
            if not entry.p2p:
                label = labels.get((dump.rank, entry.group), entry.group)
                rows = table.setdefault(label, {}).setdefault(entry.sequence, {})
                rows.setdefault(dump.rank, []).append(entry)
    return table


def mismatches(table: Mapping[str, Mapping[int, Mapping[int, list[Entry]]]]) -> list[Mismatch]:
    """The first mismatch of each group; what follows it is paired wrongly."""
    found = []
    for group, by_sequence in table.items():
        for sequence in sorted(by_sequence):
            rows = by_sequence[sequence]
            if len(rows) < 2 or _harmless(rows):
                continue
            odd = _compare(group, sequence, rows, by_sequence)
            if odd:
                found.append(odd)
                break
    return found


def _harmless(rows: Mapping[int, list[Entry]]) -> bool:
    """Whether it completed everywhere. gloo retires what failed as if it had, so there never."""
    return all(e.done and e.backend != "gloo" for entries in rows.values() for e in entries)


def _compare(
    group: str,
    sequence: int,
    rows: Mapping[int, list[Entry]],
    by_sequence: Mapping[int, Mapping[int, list[Entry]]],
) -> Mismatch | None:
    for kind, key in (("op", _ops), ("size", _sizes), ("dtype", _types)):
        votes = Counter(key(entries) for entries in rows.values())
        if len(votes) < 2:
            continue
        ranked = votes.most_common()
        tie = ranked[0][1] == ranked[1][1]
        best = key(rows[min(rows)]) if tie else ranked[0][0]
        odd = tuple(sorted(rank for rank, entries in rows.items() if key(entries) != best))
        mine = rows[odd[0]][-1]
        theirs = next(entries[-1] for entries in rows.values() if key(entries) == best)
        shifted = kind == "op" and _shifted(odd[0], sequence, best, by_sequence)
        others = len(rows) - len(odd)
        told = "order" if shifted else kind
        return Mismatch(told, group, sequence, odd, mine, theirs, others, tie)
    return None


def _shifted(
    rank: int,
    sequence: int,
    best: tuple[object, ...],
    by_sequence: Mapping[int, Mapping[int, list[Entry]]],
) -> bool:
    """Whether the odd rank makes the same calls one place off: it left one out or put one in."""
    mine = by_sequence[sequence][rank]
    after = by_sequence.get(sequence + 1, {})
    ahead = [_ops(entries) for other, entries in after.items() if other != rank]
    return (rank in after and _ops(after[rank]) == best) or _ops(mine) in ahead


def _ops(entries: list[Entry]) -> tuple[object, ...]:
    return tuple(e.op for e in entries)


def _sizes(entries: list[Entry]) -> tuple[object, ...]:
    """Numbers of elements, which is what the transport needs to agree on; not their shape."""
    return tuple(
        (numel(e.inputs), numel(e.outputs)) if _strict(e) and (e.inputs or e.outputs) else None
        for e in entries
    )


def _types(entries: list[Entry]) -> tuple[object, ...]:
    return tuple((e.input_types, e.output_types) if _strict(e) else None for e in entries)


def _strict(entry: Entry) -> bool:
    return entry.op in SAME_SIZES or (entry.backend == "gloo" and entry.op == "all_gather")


def sides(
    dumps: Sequence[Dump],
    labels: Mapping[tuple[int, str], str],
    standing: Mapping[tuple[int, str], tuple[int | None, int | None]],
) -> list[Side]:
    """Who is behind, and who is missing, group by group.

    `standing`: (rank, group label) → last enqueued and completed.
    """
    known = {dump.rank for dump in dumps}
    members: dict[str, set[int]] = {}
    for dump in dumps:
        for known_group in dump.groups.values():
            label = labels[dump.rank, known_group.name]
            members.setdefault(label, set()).update(known_group.members)
    found = []
    for group, ranks in sorted(members.items()):
        here = {r: s for (r, g), s in standing.items() if g == group}
        pending = tuple(sorted(r for r, (e, c) in here.items() if e is not None and (c or 0) < e))
        top = max((e for e, _ in here.values() if e is not None), default=0)
        behind = tuple(sorted(r for r, (e, _) in here.items() if (e or 0) < top))
        missing = tuple(sorted(ranks - known))
        if missing or (pending and behind):
            found.append(Side(group, tuple(sorted(ranks)), top, behind, missing, pending))
    return found


def numel(shapes: Iterable[Sequence[int]]) -> int:
    """Elements of all tensors together."""
    total = 0
    for shape in shapes:
        count = 1
        for size in shape:
            count *= max(size, 0)
        total += count
    return total


def describe(entry: Entry) -> str:
    """`all_reduce of [10] Float` for a reader."""
    shape = " ".join(str(list(shape)) for shape in (entry.inputs or entry.outputs)[:4])
    kind = " ".join(dict.fromkeys((entry.input_types or entry.output_types)[:4]))
    return " ".join(part for part in (f"{entry.op} of" if shape else entry.op, shape, kind) if part)


def where(entry: Entry) -> str:
    """Where in the user's program it was called: the innermost frames outside of torch."""
    own = [f for f in entry.frames if "/torch/" not in f and "<frozen" not in f]
    return " ← ".join(own[:_SHOWN_FRAMES])
