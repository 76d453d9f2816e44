"""Links that go down and come back."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._infiniband import (
    WIDTHS,
    growth,
    rebooted,
    saturated,
    some_ports,
    tell_unread,
    unread,
)
from healthcheck.model import Action, Finding, Snapshot, fail, warn
from healthcheck.model.snapshot import DAY_S
from healthcheck.registry import check

COUNTER = "link_downed"


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`per_day`: Azure's node checks fail a device that lost its carrier 5 times in a day."""

    per_day: Annotated[int, msgspec.Meta(ge=1)] = 5


@check(
    "ib-flap",
    needs=("hcas",),
    limits=Limits,
    source="Azure node health checks: 5 lost carriers a device a day",
)
def ib_flap(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """No InfiniBand or RoCE link went down since the last look.

    What it means: each time the link goes down, jobs wait for it or die (NCCL's `port error`,
    retries exceeded). A link that does it again and again has a bad cable, transceiver or port.

    What we do: warn for a link that went down since the last look, and fail at the limit in 24
    hours, counted over looks. A reboot takes every link down once and is not counted.

    What to do: once: watch it, it may have been the switch. At the limit: clean or change cable and
    transceiver, then try another switch port.
    """
    within: dict[str, int] = {}
    for event in node.events("link-downed", within_s=DAY_S):
        within[event.subject] = within.get(event.subject, 0) + event.count
    judged = 0
    for port, _, facts in some_ports(node):
        value = facts.counters.get(COUNTER)
        judged += value is not None
        grown = None if rebooted(node) else growth(node, port, COUNTER, value)
        new = grown.delta if grown else 0
        times = within.get(port, 0) + new
        full = value is not None and saturated(COUNTER, value)
        least = "at least " * full
        if times >= limits.per_day:
            yield fail(
                port,
                f"link went down {least}{times} times in 24 hours, limit {limits.per_day}: "
                "change cable or transceiver",
                measured=times,
                expected=limits.per_day,
                action=Action.DRAIN,
                limit="per_day",
            )
        elif new and grown:
            yield warn(
                port,
                f"link went down {least}{new} time(s) in the last {grown.seconds:.0f} s "
                f"({times} in 24 hours, limit {limits.per_day})",
                measured=new,
                expected=0,
            )
        elif full:
            yield warn(
                port,
                f"{COUNTER} stands at its maximum {value} ({WIDTHS[COUNTER]} bits), so a link that "
                "goes down again would go unseen: clear it with `perfquery -R`",
                measured=value,
            )
    yield from tell_unread(judged, unread(node, (COUNTER,)))
