"""Several ranks raised something: whose exception was it?"""

import re
from collections.abc import Sequence

from epilog.attribute.case import Case, Claim, hosts_of, ranks_of, told
from epilog.attribute.order import earliest
from epilog.model import Evidence

EXCEPTION = "user/python-exception"
MANY = 8
FROM_OUTSIDE = (9, 15)
_CHANGING = re.compile(r"\d+|0x[0-9a-f]+")


def fatal(case: Case, seen: Sequence[Evidence]) -> Sequence[Evidence]:
    """Without exceptions that were survived: programs also print what they catch.

    Who had to be ended from outside had not ended by his own; that counts only where another who
    raised something has.
    """
    killed = {x.rank for x in case.exits if x.signal in FROM_OUTSIDE}
    ended = {x.rank for x in case.exits if x.exit_code}
    kept = [e for e in seen if e.rank is None or e.rank not in killed]
    return kept if any(e.rank in ended for e in kept if e.rank is not None) else seen


def odd_one(seen: Sequence[Evidence]) -> Claim:
    """The exception that fewest ranks raised; the first of those.

    What all ranks raise alike is in the code they share; what one rank raises while the others
    raise something else is the cause, and theirs came of it.
    """
    groups: dict[str, list[Evidence]] = {}
    for e in seen:
        groups.setdefault(_wording(e), []).append(e)
    timed = {id(e) for e in earliest(seen)}
    best = min(
        groups.values(),
        key=lambda g: (len(ranks_of(g)) or 1, not any(id(e) in timed for e in g)),
    )
    ranks = ranks_of(best) or ranks_of(seen)
    said = best[0].text.strip()[:120]
    why = f"{told(ranks) if ranks else 'the program'} raised: {said}"
    if len(groups) > 1:
        why += f" ({len(groups) - 1} other exceptions are left aside)"
    if len(ranks) > MANY:
        why += "; so many ranks alike means that it is the program and no single rank"
    return Claim(
        EXCEPTION,
        why,
        tuple(best[:MANY]),
        ranks,
        hosts_of(best),
        confidence=1.0 if len(groups) == 1 else 0.8,
    )


def _wording(e: Evidence) -> str:
    return e.fields.get("error_type") or _CHANGING.sub("#", e.text.strip())[:80]
