"""`[requalify]`: what proves that a node may come back."""

from typing import Annotated, Literal

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0, le=90 * 86_400)]


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of `flightcheck requalify`. Times are in seconds.

    A node comes back after `passes` clean passes in a row, first and last at least `spread_s`
    apart. `accept`: the worst verdict that is clean. Drained again within `flap_window_s` of a
    resume is a strike: the node is left alone for `hold_s`, doubled with each further strike, and
    from `max_strikes` on until a person resumes it; a strike is forgiven after `forgive_s` in
    service. At most `max_nodes` are resumed within `window_s`. `reboot`: call `scontrol reboot`
    for a node whose finding asks for one, at most `max_reboots` times a drain (the same Xid after
    two reboots is for hands, not for a third).
    """

    passes: Annotated[int, msgspec.Meta(ge=1, le=50)] = 3
    spread_s: Seconds = 3600.0
    accept: Literal["go", "degraded"] = "go"
    flap_window_s: Seconds = 86_400.0
    hold_s: Seconds = 14_400.0
    max_strikes: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    forgive_s: Seconds = 30 * 86_400.0
    max_nodes: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 8
    window_s: Annotated[float, msgspec.Meta(ge=60, le=30 * 86_400)] = 3600.0
    reboot: bool = False
    max_reboots: Annotated[int, msgspec.Meta(ge=0, le=10)] = 2

    @property
    def gap_s(self) -> float:
        """Between two passes that both count."""
        return self.spread_s / (self.passes - 1) if self.passes > 1 else 0.0

    @property
    def fresh_s(self) -> float:
        """How old the last pass may be at the resume: a node that waited for a seat is asked
        again."""
        return max(2 * self.gap_s, 1800.0)

    def hold_until(self, drained_at: float, strikes: int) -> float:
        """When a node with so many strikes may begin to prove itself."""
        return drained_at + self.hold_s * 2 ** min(strikes - 1, 30) if strikes else 0.0
