"""Step 3, first part: a rank that reports NaN in what it computed itself."""

from epilog.attribute.case import Case, Claim, Step, hosts_of, ranks_of, told
from epilog.attribute.order import earliest
from epilog.model import Evidence, Role

NAN = "user/nan"
MANY = 8


def step(case: Case) -> Step:
    """The rank with a LOCAL NaN. After an all-reduce every rank has it, and names nobody."""
    local = [e for e in case.of(Role.ROOT) if e.klass == NAN and e.rank is not None]
    if not local:
        return Step("no rank reports a NaN of its own")
    ranks = ranks_of(local)
    chosen = local if len(ranks) == 1 else _first_of(local)
    named = ranks_of(chosen)
    if len(named) > MANY:
        why = f"{len(named)} ranks report NaN at the same time: it is not clear where it came from"
        return Step(why, Claim(NAN, why, tuple(local[:MANY]), confidence=0.6))
    why = f"{told(named)} reports NaN in what it computed itself"
    if len(ranks) > len(named):
        why += f", before {len(ranks) - len(named)} others did"
    elif len(named) > 1:
        why += ", and nothing tells which was first"
    confidence = 1.0 if len(named) == 1 else 0.7
    return Step(why, Claim(NAN, why, tuple(chosen), named, hosts_of(chosen), confidence=confidence))


def anywhere(case: Case) -> Step:
    """NaN without a rank of its own (loss: nan, the smallest loss scale): a cause, no culprit."""
    seen = tuple(e for e in case.of(Role.ROOT, Role.SYMPTOM) if e.klass == NAN)
    if not seen:
        return Step("no NaN in the log")
    why = "the run diverged (NaN or overflow) in values that all ranks share: that names nobody"
    return Step(why, Claim(NAN, why, seen[-4:], confidence=0.65))


def _first_of(local: list[Evidence]) -> list[Evidence]:
    steps = {e.fields.get("iteration", e.fields.get("step", "")) for e in local}
    if len(steps) > 1 and all(s.isdecimal() and len(s) < 16 for s in steps):
        low = str(min(map(int, steps)))
        local = [e for e in local if e.fields.get("iteration", e.fields.get("step")) == low]
    return earliest(local)
