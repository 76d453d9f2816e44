"""Step 5: errors that name a peer vote for that peer. A vote is a suspicion, never a proof."""

from collections.abc import Sequence

from epilog.attribute.case import Case, Claim, Step, numbers, told
from epilog.attribute.members import by_launcher, left_early, silent, speakers, victims
from epilog.attribute.parted import parted
from epilog.attribute.places import short
from epilog.model import Evidence, Role

RETRY = "network/ib-retry"
PEER_DIED = "unknown/peer-died"
RENDEZVOUS = "network/rendezvous"
DESYNC, CONFIG = "user/desync", "user/config"
SLOW_START = "infrastructure/slow-start"
MOST_SILENT = 2
LEADER = 0
"""JAX's coordination service lives in the process of task 0."""


def network(case: Case) -> Step:
    """Completion errors towards a peer; flush errors come after them and do not vote."""
    seen = [e for e in case.of(Role.ROOT, Role.SYMPTOM) if e.klass == RETRY]
    if not seen:
        return Step("no network error names a peer")
    ballots = _votes(seen)
    if not ballots:
        why = "network retries were exhausted, towards a peer that the log does not name"
        return Step(why, Claim(RETRY, why, tuple(seen[:4])))
    most = max(len(voters) for voters in ballots.values())
    nodes = [peer for peer, voters in ballots.items() if len(voters) == most]
    count = f"{most} voice(s) of {len({v for voters in ballots.values() for v in voters})}"
    if len(nodes) > 2:
        why = f"{len(nodes)} peers are named equally often: the fabric, not one node"
        return Step(why, Claim(RETRY, why, tuple(seen[:6]), confidence=0.8))
    why = f"{count} name {', '.join(nodes)} as the peer that did not answer"
    shown = [e for e in seen if short(e.fields.get("peer", "")) in nodes]
    return Step(why, Claim(RETRY, why, tuple(shown[:6]), nodes=tuple(nodes)))


def rendezvous(case: Case) -> Step:
    """Who did not come to the meeting point."""
    seen = [e for e in case.of(Role.ROOT, Role.SYMPTOM) if e.klass == RENDEZVOUS]
    if not seen:
        return Step("everybody met")
    named = sorted({r for e in seen for r in _absent(e)})
    if named:
        present = speakers(seen) | {0}
        world = max(*named, *present) + 1
        if world > 2 and len(named) == world - 1:
            why = f"of {world} tasks only one was there: the others were never started"
            return Step(why, Claim(CONFIG, why, tuple(seen[:4]), tuple(named)))
        why = f"{told(named)} named as absent from the meeting point"
        return Step(why, Claim(RENDEZVOUS, why, tuple(seen[:4]), tuple(named)))
    missing = silent(case, speakers(case.evidence))
    if missing:
        why = f"all but {told(missing)} waited at the meeting point"
        return Step(why, Claim(RENDEZVOUS, why, tuple(seen[:4]), missing))
    ballots = _votes(seen)
    nodes = tuple(ballots) if len(ballots) == 1 else ()
    why = "the meeting point timed out" + (f"; {nodes[0]} did not answer" if nodes else "")
    return Step(why, Claim(RENDEZVOUS, why, tuple(seen[:4]), nodes=nodes, confidence=0.85))


def departed(case: Case) -> Step:
    """Peers report a lost connection: the one who reports nothing is the one who left."""
    seen = [e for e in case.evidence if e.klass == PEER_DIED]
    if not seen:
        return Step("nobody reports a lost peer")
    named = tuple(sorted({r for e in seen for r in _absent(e)}))
    if named == (LEADER,) and all(e.signature.startswith("jax-heartbeat") for e in seen):
        # The service that says so lives in the leader's own process, which therefore is not dead.
        why = "the leader declares itself dead while it is running: it was stalled, not gone"
        return Step(why, Claim(SLOW_START, why, tuple(seen[:4]), named))
    if not named and any(e.signature == "jax-leader-gone" for e in seen):
        named = (LEADER,)
    if named:
        why = f"{told(named)} named as the one that went away"
        return Step(why, Claim(PEER_DIED, why, tuple(seen[:4]), named))
    lost = [e for e in seen if e.role is not Role.ROOT and not by_launcher(e)]
    spoke = victims(case)
    apart = parted(case)
    if apart is not None:
        return Step(apart.why, apart)
    missing = silent(case, spoke)
    early = left_early(case, missing)
    if early:
        why = f"{told(early)} had ended with exit code 0 while the others still needed it"
        return Step(why, Claim(DESYNC, why, tuple(lost[:4]), early))
    if missing and len(missing) <= MOST_SILENT:
        why = f"{told(sorted(spoke))} lost a peer, {told(missing)} says nothing"
        return Step(why, Claim(PEER_DIED, why, tuple(lost[:4]), missing))
    why = "ranks report that a peer went away; which one, and why, is not in what was read"
    return Step(why, Claim(PEER_DIED, why, tuple(seen[:4]), confidence=0.8))


def _votes(seen: Sequence[Evidence]) -> dict[str, set[str]]:
    """Peer → who names it, each host or rank once."""
    ballots: dict[str, set[str]] = {}
    for e in seen:
        peer = short(e.fields.get("peer", "").partition("<")[0].strip("(), "))
        if peer:
            ballots.setdefault(peer, set()).add(e.host or f"rank {e.rank}")
    return ballots


def _absent(e: Evidence) -> tuple[int, ...]:
    return numbers(e.fields.get("absent") or e.fields.get("culprits"))
