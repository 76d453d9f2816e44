"""The system clock."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import Finding, Snapshot, fail, warn
from healthcheck.model.judgement import Action
from healthcheck.registry import check

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest believable error of the clock, in seconds. `fail_error_s`: none by default.

    The kernel counts at most 16 s; a larger `fail_error_s` would never be reached.
    """

    max_error_s: Seconds = 1.0
    fail_error_s: Annotated[float, msgspec.Meta(gt=0, le=16)] | None = None

    def __post_init__(self) -> None:
        if self.fail_error_s is not None and self.fail_error_s < self.max_error_s:
            raise ValueError(
                f"fail_error_s ({self.fail_error_s:g}) is below max_error_s ({self.max_error_s:g})"
            )


@check(
    "clock",
    needs=("clock",),
    stages=("epilog", "health", "sweep"),
    limits=Limits,
    source="man 2 adjtimex; RFC 5905 appendix A.1.1 (MAXDIST, 1 s)",
)
def clock(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """The clock is kept by a time service, and its error is below a second.

    What it means: munge refuses credentials of nodes whose clocks differ by minutes, and log
    lines of a crash on many nodes can only be put in order if their clocks agree.

    What we do: ask the kernel (adjtimex), not the time service, so chrony, ntpd, timesyncd and
    phc2sys are all served. Unsynchronised or beyond the limit: warn; beyond `fail_error_s`, where
    set: fail. Not in the prolog: a clock does not spoil between two jobs.

    What to do: `chronyc tracking` or `timedatectl timesync-status`; check that the time servers
    are reached from the node.
    """
    assert node.clock is not None
    error = node.clock.maximum_error_s
    if error is not None and limits.fail_error_s is not None and error > limits.fail_error_s:
        yield fail(
            "clock",
            f"the clock may be wrong by {error:.3g} s, limit {limits.fail_error_s:g} s"
            + ("" if node.clock.synchronised else "; no time service keeps it"),
            measured=error,
            expected=limits.fail_error_s,
            action=Action.DRAIN,
            limit="fail_error_s",
        )
    elif not node.clock.synchronised:
        yield warn(
            "clock",
            "no time service keeps the clock (the kernel says unsynchronised)",
            measured="unsynchronised",
            expected="synchronised",
        )
    elif error is not None and error > limits.max_error_s:
        yield warn(
            "clock",
            f"the clock may be wrong by {error:.3g} s, expected at most {limits.max_error_s:g} s",
            measured=error,
            expected=limits.max_error_s,
            limit="max_error_s",
        )
