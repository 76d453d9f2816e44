"""Transport errors that network cards count."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._infiniband import growth, some_ports, tell_unread, unread
from healthcheck.model import Finding, Snapshot, warn
from healthcheck.registry import check

Rate = Annotated[float, msgspec.Meta(ge=0)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events a minute. Our choices, high on purpose: congestion moves these counters too."""

    local_ack_timeout_err_per_minute: Rate = 10
    packet_seq_err_per_minute: Rate = 1000
    out_of_sequence_per_minute: Rate = 1000
    rnr_nak_retry_err_per_minute: Rate = 10


MEANINGS = {
    "local_ack_timeout_err": "a peer did not acknowledge in time: path or peer",
    "packet_seq_err": "a peer reported lost packets on the way from here",
    "out_of_sequence": "packets on the way to here were lost or overtaken",
    "rnr_nak_retry_err": "a peer was not ready to receive, retry after retry",
}


@check(
    "ib-hw-errors",
    needs=("hcas",),
    limits=Limits,
    source="NVIDIA mlx5 hw_counters (Understanding mlx5 Linux counters)",
)
def ib_hw_errors(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """No network card counts transport errors at a rate that congestion does not explain.

    What it means: packets are lost or late between this card and its peers. Any end of the path
    may be the cause, so this accuses nobody by itself.

    What we do: warn by rate since the last look, and never fail.

    What to do: see whether ports on other nodes count as well (fabric, congestion control) or only
    this one (its cable, its switch port); for RoCE check PFC and ECN settings.
    """
    judged = 0
    for port, _, facts in some_ports(node):
        for counter, meaning in MEANINGS.items():
            value = facts.hw_counters.get(counter)
            if value is None:
                continue
            judged += 1
            grown = growth(node, port, counter, value)
            limit = f"{counter}_per_minute"
            allowed = getattr(limits, limit)
            if grown is None or grown.per_minute() <= allowed:
                continue
            rate = round(grown.per_minute(), 1)
            yield warn(
                port,
                f"{counter} grew by {grown.delta} in {grown.seconds:.0f} s ({rate:g} a minute), "
                f"expected at most {allowed:g} a minute: {meaning}",
                measured=rate,
                expected=allowed,
                limit=limit,
            )
    yield from tell_unread(judged, unread(node, MEANINGS))
