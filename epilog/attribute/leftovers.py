"""Symptoms nobody could explain: named as what they are, with low confidence."""

from epilog.attribute.case import Case, Claim, Step, hosts_of, ranks_of
from epilog.attribute.order import earliest
from epilog.classes import UNKNOWN, class_of
from epilog.model import Role

MANY = 8
STUCK = "torch-watchdog-stuck"
"""A watchdog speaks of its own process here: a call into CUDA does not come back."""
_ELSEWHERE = frozenset({"user/nan", "infrastructure/fs-slow"})


def lesser(case: Case) -> Step:
    """Errors of a rank's own that libraries report only in general words."""
    seen = [
        e
        for e in case.of(Role.SYMPTOM)
        if e.klass.startswith(("hardware/", "infrastructure/", "user/"))
        and e.klass not in _ELSEWHERE
        and not e.fields.get("exitcode")
        and not e.fact
    ]
    if not seen:
        return Step("no rank reports an error of its own in general words either")
    klass = min((e.klass for e in seen), key=lambda name: class_of(name).weight)
    first = earliest([e for e in seen if e.klass == klass])
    ranks = ranks_of(first)
    why = f"an error of its own in general words: {first[0].text.strip()[:120]}"
    ranks = ranks if len(ranks) <= MANY else ()
    shown = tuple(first[:MANY])
    return Step(why, Claim(klass, why, shown, ranks, hosts_of(first), confidence=0.75))


def symptoms(case: Case) -> Step:
    """The symptom nearest to a cause."""
    seen = [e for e in case.of(Role.ROOT, Role.SYMPTOM) if not e.klass.startswith("scheduler/")]
    if not seen:
        return Step("no symptom is left")
    klass = min((e.klass for e in seen), key=lambda name: class_of(name).weight)
    same = tuple(e for e in seen if e.klass == klass)
    ranks = ranks_of(same)
    why = f"only a symptom is known: {same[0].text.strip()[:120]}"
    # Who reports a time-out or a heartbeat is the victim; other symptoms belong to who has them.
    victims = klass.startswith("unknown/") and klass != "unknown/sigkill"
    stuck = {e.rank for e in same if e.signature == STUCK}
    if victims and len(stuck) == 1 and None not in stuck:
        same = tuple(e for e in same if e.signature == STUCK)
        ranks, victims = ranks_of(same), False
    return Step(
        why,
        Claim(
            klass,
            why,
            same[:MANY],
            () if victims or len(ranks) > MANY else ranks,
            () if victims else hosts_of(same),
            confidence=0.8,
        ),
    )


def nothing(case: Case) -> Step:
    """Nothing at all: say so."""
    why = "nothing that was read tells why the job failed"
    shown = case.evidence[:4]
    return Step(why, Claim(UNKNOWN, why, shown, confidence=1.0))
