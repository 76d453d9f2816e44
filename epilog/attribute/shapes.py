"""All stand at the same number: did they issue the same operation with the same size?"""

import msgspec

from epilog.attribute.groups import Group, stuck_at
from epilog.model import Work

# Operations whose sizes may rightly differ from rank to rank.
_UNEVEN = ("GATHER", "SCATTER", "ALLTOALL", "SEND", "RECV", "COALESCED", "P2P")
_EVEN = ("ALLREDUCE", "BROADCAST", "REDUCE_SCATTER", "ALLGATHER", "_ALLGATHER", "_REDUCE_SCATTER")


class Mismatch(msgspec.Struct, frozen=True):
    """The ranks that issued something else, and in words what. `tie`: as many as the others."""

    ranks: tuple[int, ...]
    what: str
    tie: bool


def mismatch(group: Group) -> Mismatch | None:
    """The minority at the number where most are stuck; None where all are alike or unknown."""
    at = group.waited_for()
    issued: dict[tuple[str, str], list[int]] = {}
    for rank, work in group.standing.items():
        if stuck_at(work) == at and work.op:
            issued.setdefault(_signature(work), []).append(rank)
    if len(issued) < 2:
        return None
    least = min(len(ranks) for ranks in issued.values())
    most = max(len(ranks) for ranks in issued.values())
    odd = sorted(r for ranks in issued.values() if len(ranks) < most for r in ranks)
    tie = least == most
    ranks = tuple(odd) if not tie else tuple(sorted(r for ranks in issued.values() for r in ranks))
    words = " against ".join(
        f"{' '.join(part for part in key if part)} on {len(ranks)}"
        for key, ranks in sorted(issued.items(), key=lambda item: len(item[1]))
    )
    return Mismatch(ranks, words, tie)


def _signature(work: Work) -> tuple[str, str]:
    op = (work.op or "").upper()
    if not op.startswith(_EVEN) and any(word in op for word in _UNEVEN):
        return op, ""
    sizes = [f"in {work.numel_in}" if work.numel_in is not None else ""]
    sizes.append(f"out {work.numel_out}" if work.numel_out is not None else "")
    if work.shape and work.numel_in is None:
        sizes.append(work.shape)
    if work.dtype:
        sizes.append(work.dtype)
    return op, " ".join(part for part in sizes if part)
