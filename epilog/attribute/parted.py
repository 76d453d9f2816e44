"""Where did each rank stand in the program when it gave up? The tracebacks of the victims tell.

Eight ranks wait in all_reduce and one in all_gather: the one took another turn. No sequence number
is needed for that, so it works for gloo and for releases that print none.
"""

from collections.abc import Callable, Sequence

from epilog.attribute.case import Case, Claim, told
from epilog.model import Evidence, Role

DESYNC = "user/desync"
_LIBRARY = "torch/distributed/"
_PAIRED = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
_VICTIMS = ("unknown/hang", "unknown/peer-died", "unknown/nccl-timeout", "network/rendezvous")
LEAST = 3
FEW = 8


def parted(case: Case) -> Claim | None:
    """The minority whose tracebacks end in another collective, or at another line of the program.

    None where fewer than three ranks show a traceback, or all stand at the same place.
    """
    seen: dict[int, Evidence] = {}
    for e in case.evidence:
        if e.rank is None or e.klass not in _VICTIMS or e.role is Role.ROOT:
            continue
        if _LIBRARY in e.fields.get("frame", "") and e.fields.get("call"):
            seen.setdefault(e.rank, e)
    if len(seen) < LEAST or any(e.fields["call"] in _PAIRED for e in seen.values()):
        return None
    found = _minority(list(seen.values()), lambda e: e.fields["call"])
    if found is not None:
        return _claim(found, list(seen.values()), "call", 0.9)
    callers = [e for e in seen.values() if e.fields.get("caller")]
    if len(callers) < LEAST:
        return None
    found = _minority(callers, lambda e: e.fields["caller"])
    return _claim(found, callers, "caller", 0.7) if found is not None else None


def _minority(seen: Sequence[Evidence], key: Callable[[Evidence], str]) -> list[Evidence] | None:
    groups: dict[str, list[Evidence]] = {}
    for e in seen:
        groups.setdefault(key(e), []).append(e)
    most = max(groups.values(), key=len)
    odd = [e for group in groups.values() if group is not most for e in group]
    return odd if odd and len(odd) * 2 < len(seen) else None


def _claim(odd: list[Evidence], seen: list[Evidence], field: str, confidence: float) -> Claim:
    ranks = tuple(sorted({e.rank for e in odd if e.rank is not None}))
    other = next(e for e in seen if e not in odd)
    what = "in" if field == "call" else "at"
    why = (
        f"{told(ranks)} stood {what} {odd[0].fields[field]}, "
        f"{len(seen) - len(odd)} others {what} {other.fields[field]}, as their tracebacks show"
    )
    shown = (*odd, *[e for e in seen if e not in odd])[:FEW]
    return Claim(DESYNC, why, shown, ranks, confidence=confidence)
