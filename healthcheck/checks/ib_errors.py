"""Error counters of InfiniBand ports."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._infiniband import (
    WIDTHS,
    growth,
    saturated,
    some_ports,
    tell_unread,
    unread,
)
from healthcheck.model import Finding, Growth, Snapshot, warn
from healthcheck.registry import check

Rate = Annotated[float, msgspec.Meta(ge=0)]

MEANINGS = {
    "link_error_recovery": "the link had to be retrained",
    "symbol_error": "damaged symbols on the wire",
    "port_rcv_errors": "damaged packets received",
    "local_link_integrity_errors": "too many damaged packets in a row",
    "excessive_buffer_overrun_errors": "the receive buffers overflowed: flow control failed",
}


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Errors an hour.

    Our choices, on this ground: InfiniBand asks for a bit error rate of 1e-12 or better (IBTA,
    vol. 2), and on links with error correction (EDR and later) what these counters still show has
    got past the correction, so a healthy link shows next to none.
    """

    link_error_recovery_per_hour: Rate = 3
    symbol_error_per_hour: Rate = 120
    port_rcv_errors_per_hour: Rate = 60
    local_link_integrity_errors_per_hour: Rate = 3
    excessive_buffer_overrun_errors_per_hour: Rate = 3


@check(
    "ib-errors",
    needs=("hcas",),
    limits=Limits,
    source="InfiniBand PortCounters (IBTA specification, vol. 1, Performance Management)",
)
def ib_errors(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """No InfiniBand port counts link errors faster than a sound cable does.

    What it means: the cable, the transceiver or one end of the link damages data. Packets are sent
    again, so jobs only get slower, until the link goes down.

    What we do: warn by rate since the last look; lifetime totals say nothing. A counter at the
    maximum of its 4, 8 or 16 bits can count no further: that is told as a warning, since new errors
    would go unseen. A counter smaller than before was cleared, and counts from zero.

    What to do: clean or change cable and transceiver; compare with the switch's side
    (`perfquery`). Clear counters that stand at their maximum with `perfquery -R`.
    """
    judged = 0
    for port, _, facts in some_ports(node):
        if facts.link_layer == "Ethernet":
            continue
        for counter, meaning in MEANINGS.items():
            value = facts.counters.get(counter)
            if value is None:
                continue
            judged += 1
            limit = f"{counter}_per_hour"
            yield from _judge(node, port, counter, meaning, value, limit, getattr(limits, limit))
    yield from tell_unread(judged, unread(node, MEANINGS))


def _judge(
    node: Snapshot, port: str, counter: str, meaning: str, value: int, limit: str, allowed: float
) -> Iterator[Finding]:
    grown = growth(node, port, counter, value)
    full = saturated(counter, value)
    if grown is not None and grown.per_hour() > allowed:
        least = "at least " * full
        yield warn(
            port,
            f"{counter} grew by {least}{grown.delta} in {_span(grown)}, expected at most "
            f"{allowed:g} an hour: {meaning}; check cable and transceiver",
            measured=round(grown.per_hour(), 1),
            expected=allowed,
            limit=limit,
        )
    elif full:
        yield warn(
            port,
            f"{counter} stands at its maximum {value} ({WIDTHS[counter]} bits) and counts no "
            "further, so new errors would go unseen: clear it with `perfquery -R`",
            measured=value,
        )


def _span(grown: Growth) -> str:
    seconds = grown.seconds
    return f"{seconds:.0f} s" if seconds < 7200 else f"{seconds / 3600:.1f} h"
