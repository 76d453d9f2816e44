"""From the seconds of each iteration on each rank to bus bandwidth and the slowest rank."""

from collections.abc import Mapping, Sequence

from healthcheck.allreduce.middle import median
from healthcheck.model.allreduce import BusBandwidth

GB = 1e9
LATE_FLOOR_S = {"nccl": 0.0002, "gloo": 0.02}
"""Below this a delay is noise; processes that share CPUs wait for those too."""
LATE_SHARE = 0.2
"""A rank stands out as late from this share of the time of an iteration on."""


def busbw(size: int, seconds: float, ranks: int) -> float:
    """Bus bandwidth of an all_reduce of `size` bytes, in GB/s.

    nccl-tests' definition (doc/PERFORMANCE.md): S/t · 2(n−1)/n, which is what each rank's link
    carries in a ring and can be compared with its line rate whatever n is.
    """
    if seconds <= 0 or ranks < 1:
        return 0.0
    return size / seconds * 2 * (ranks - 1) / ranks / GB


def bandwidth(
    size: int,
    dtype: str,
    ranks: int,
    times: Mapping[int, Sequence[float]],
    totals: Mapping[int, float],
    backend: str = "nccl",
) -> BusBandwidth | None:
    """What the iterations of one size add up to; None without any.

    `times`: seconds of each iteration by rank; `totals`: seconds of the whole loop by rank. The
    mean over all iterations, averaged over the ranks, is the figure nccl-tests prints.
    """
    rounds = list(zip(*times.values(), strict=False))
    if not rounds:
        return None
    slowest = [max(one) for one in rounds]
    mean = sum(totals.values()) / len(totals) / len(rounds) if totals else 0.0
    late, rank = latest(times, LATE_FLOOR_S[backend])
    return BusBandwidth(
        bytes=size,
        dtype=dtype,
        iterations=len(rounds),
        median_s=median(slowest),
        fastest_s=min(slowest),
        busbw_gb_s=round(busbw(size, median(slowest), ranks), 4),
        fastest_busbw_gb_s=round(busbw(size, min(slowest), ranks), 4),
        mean_busbw_gb_s=round(busbw(size, mean, ranks), 4),
        slowest_rank=rank,
        late_s=late,
        rank_s={one: median(own) for one, own in times.items() if own},
    )


def latest(times: Mapping[int, Sequence[float]], floor_s: float) -> tuple[float | None, int | None]:
    """(seconds, rank) of the rank that the others wait for, or (None, None).

    No clock is shared between nodes, so arrival shows by waiting: in a collective that all leave
    together, the last to come spends the least time inside. A rank stands out where the gap to
    the next-later rank is larger than all the others' spread and a good share of the time.
    """
    if len(times) < 2:
        return None, None
    spent = {rank: median(own) for rank, own in times.items() if own}
    if len(spent) < 2:
        return None, None
    order = sorted(spent, key=lambda rank: spent[rank])
    gap = spent[order[1]] - spent[order[0]]
    spread = spent[order[-1]] - spent[order[1]]
    floor = max(floor_s, LATE_SHARE * spent[order[-1]])
    if gap < floor or gap < 2 * spread:
        return None, None
    return round(gap, 6), order[0]
