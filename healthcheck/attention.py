"""Whether whoever waits was awake himself.

A machine that stands still (no processor, a disk that stalls, a paused guest) lets the clock run on
while nothing runs. Whoever then looks at the clock sees everybody silent for seconds. Only silence
that was watched says something about the other side.
"""

import time

GAP_S = 1.0
"""Looks are at most 0.25 s apart by plan; a longer gap than this is a machine that stood still."""


class Attention:
    """Times in monotonic seconds. `since`: from when on it looked without a gap."""

    def __init__(self) -> None:
        self.since = self._looked = time.monotonic()
        self.longest_gap_s = 0.0

    def look(self) -> float:
        """The time now; to be called often."""
        now = time.monotonic()
        gap = now - self._looked
        if gap > GAP_S:
            self.since = now
            self.longest_gap_s = max(self.longest_gap_s, gap)
        self._looked = now
        return now

    def silent_s(self, at: float) -> float:
        """Seconds of watched silence of somebody last heard at `at`, as of the last look."""
        return max(0.0, self._looked - max(at, self.since))
