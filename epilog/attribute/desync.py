"""Lines that say themselves which ranks took another turn: they override what could be inferred."""

from collections.abc import Sequence

from epilog.attribute.case import Claim, hosts_of, numbers, ranks_of, told
from epilog.model import Evidence

DESYNC = "user/desync"
MANY = 16


def culprits(seen: Sequence[Evidence]) -> Claim:
    """Whom these lines accuse.

    Named directly (a monitored barrier, desync debugging): those. Comparisons of two ranks: the
    one that most others found different, for a rank compares itself with 0, 1, 2 … and tells the
    first that differs. Counts of launched operations: the minority is named, but may be ahead.
    """
    named = [e for e in seen if e.fields.get("culprits")]
    if named:
        ranks = sorted({r for e in named for r in numbers(e.fields["culprits"])})
        why = f"{told(ranks)} accused by name: {named[0].text.strip()[:100]}"
        return _claim(why, named, ranks, 1.0)
    pairs = [e for e in seen if e.fields.get("other_rank", "").isdecimal()]
    if pairs:
        return _compared(pairs)
    traced = [e for e in seen if e.fields.get("named_rank")]
    if traced:
        return _traced(traced)
    minority = [e for e in seen if e.fields.get("minority")]
    if minority:
        ranks = sorted({r for e in minority for r in numbers(e.fields["minority"])})
        why = (
            f"{told(ranks)} stands at another operation than most; the odd ones may be ahead as "
            "well as behind, so this names no culprit"
        )
        return _claim(why, minority, (), 0.7)
    ranks = sorted(ranks_of(seen))
    why = f"{told(ranks) if ranks else 'the log'} tells that collectives did not match"
    return _claim(why, seen, ranks if len(ranks) <= 2 else (), 0.75)


def _traced(traced: Sequence[Evidence]) -> Claim:
    """torchfrtrace takes the first rank for innocent and names all that differ from it."""
    ranks = sorted({r for e in traced for r in numbers(e.fields["named_rank"])})
    first = f"{told(ranks)} differs from the first rank, which torchfrtrace takes for innocent"
    if len(ranks) == 1:
        return _claim(first, traced, ranks, 0.7)
    return _claim(f"{first}: the first rank may as well be the odd one", traced, (), 0.7)


def _compared(pairs: Sequence[Evidence]) -> Claim:
    accusers: dict[int, set[int | None]] = {}
    for e in pairs:
        accusers.setdefault(int(e.fields["other_rank"][:8]), set()).add(_reporter(e))
    most = max(len(who) for who in accusers.values())
    ranks = sorted(rank for rank, who in accusers.items() if len(who) == most)
    why = f"{told(ranks)} differs from what {most} other(s) issued: {_difference(pairs[0])}"
    certain = 1.0 if len(ranks) == 1 and most > 1 else 0.85
    if len(ranks) > 1:
        why = f"{told(ranks)} accuse each other, a tie: {_difference(pairs[0])}"
        certain = 0.6
    shown = [e for e in pairs if int(e.fields["other_rank"][:8]) in ranks]
    return _claim(why, shown, ranks, certain)


def _reporter(e: Evidence) -> int | None:
    told_by = e.fields.get("rank", "")
    return int(told_by[:8]) if told_by.isdecimal() else e.rank


def _difference(e: Evidence) -> str:
    fields = e.fields
    for name in ("op", "shape", "seq", "params"):
        mine, other = fields.get(name), fields.get(f"other_{name}")
        if mine and other and mine != other:
            return f"{name} {mine} here, {other} there"
    return e.text.strip()[:100]


def _claim(why: str, seen: Sequence[Evidence], ranks: Sequence[int], confidence: float) -> Claim:
    nodes = hosts_of([e for e in seen if e.rank in ranks]) if ranks else ()
    return Claim(DESYNC, why, tuple(seen[:MANY]), tuple(ranks), nodes, confidence=confidence)
