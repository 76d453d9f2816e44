"""What logs said of nodes, remembered until facts or an unrelated job confirm it.

One suspicion never does anything. Two drain for diagnosis only where neither the job nor the
user is the same, for one user can write what he likes into two jobs.
"""

from collections.abc import Iterable, Sequence

import msgspec


class Suspicion(msgspec.Struct, frozen=True):
    """That the log of `job_id`, run by `uid`, accuses `node`. `at` in unix seconds."""

    node: str
    klass: str
    job_id: int
    uid: int
    at: float
    said: str = ""


def alive(remembered: Iterable[Suspicion], now: float, window_s: float) -> list[Suspicion]:
    """Those that are neither too old nor from the future."""
    return [s for s in remembered if now - window_s <= s.at <= now + 60]


def confirmed(
    node: str, remembered: Sequence[Suspicion], now: float, window_s: float
) -> tuple[Suspicion, Suspicion] | None:
    """Two suspicions of `node` from unrelated jobs and users, the newest ones; else None."""
    mine = sorted(
        (s for s in alive(remembered, now, window_s) if s.node == node), key=lambda s: -s.at
    )
    for i, one in enumerate(mine):
        for other in mine[i + 1 :]:
            if one.uid != other.uid and one.job_id != other.job_id:
                return one, other
    return None


def about(
    node: str, remembered: Iterable[Suspicion], now: float, window_s: float
) -> list[Suspicion]:
    """What the next prolog or the node's own epilog should look at."""
    return [s for s in alive(remembered, now, window_s) if s.node == node]


def added(
    remembered: Sequence[Suspicion], fresh: Iterable[Suspicion], most: int
) -> tuple[Suspicion, ...]:
    """Both together, one a job and node, the newest `most` of them."""
    kept = {(s.node, s.job_id): s for s in (*remembered, *fresh)}
    return tuple(sorted(kept.values(), key=lambda s: s.at)[-most:])


def cleared(remembered: Iterable[Suspicion], node: str) -> tuple[Suspicion, ...]:
    """Without those about a node that was looked at."""
    return tuple(s for s in remembered if s.node != node)
