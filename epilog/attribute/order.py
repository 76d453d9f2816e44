"""Step 6: time, which only breaks ties: nodes' clocks differ, torchrun's has whole seconds."""

from collections.abc import Sequence

from epilog.model import Evidence

CLOCKS_APART_S = 1.0
"""Nodes kept by NTP or PTP agree far better; what prints only whole seconds does not."""


def earliest(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Those that came first, as far as time can tell: all of them where a time is missing."""
    timed = [e.at for e in evidence if e.at is not None]
    if len(timed) < len(evidence) or not timed:
        return list(evidence)
    first = min(timed)
    apart = CLOCKS_APART_S if len({e.host for e in evidence}) > 1 else 0.0
    within = [e for e in evidence if e.at is not None and e.at <= first + apart]
    return within or list(evidence)


def start_of_hang(at: float | None, timeout_ms: int | None) -> float | None:
    """When the wait began that ended in a time-out at `at` (unix seconds)."""
    if at is None or timeout_ms is None:
        return None
    return at - timeout_ms / 1000.0
