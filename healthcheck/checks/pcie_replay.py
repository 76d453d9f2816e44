"""PCIe replays."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import Finding, NotApplicable, Snapshot, warn
from healthcheck.registry import check


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`per_minute`: NVIDIA DCGM's PCIe health watch, DCGM_LIMIT_MAX_PCIREPLAY_RATE 8."""

    per_minute: Annotated[float, msgspec.Meta(ge=0)] = 8


@check(
    "pcie-replay",
    needs=("gpus",),
    limits=Limits,
    source="NVIDIA DCGM, PCIe health watch: more than 8 replays a minute",
)
def pcie_replay(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """No GPU has to send its PCIe packets again more often than a few times a minute.

    What it means: a replay is a packet that arrived damaged and was sent again. Data is right,
    the link is not: contacts, riser, retimer or the GPU's own receiver.

    What we do: warn for a mean rate since the last look above the limit. Totals say nothing.

    What to do: watch the rate; reseat the GPU or its riser at the next service.
    """
    if not any(gpu.pcie_replays is not None for gpu in node.gpus or ()):
        raise NotApplicable("no GPU here counts PCIe replays")
    for gpu in node.gpus or ():
        grown = node.growth(gpu.bus_id, "pcie_replays", gpu.pcie_replays)
        if grown is None or grown.per_minute() <= limits.per_minute:
            continue
        rate = round(grown.per_minute(), 1)
        yield warn(
            gpu.bus_id,
            f"{grown.delta} PCIe replays in {grown.seconds:.0f} s ({rate:g} a minute), expected "
            f"at most {limits.per_minute:g} a minute: the link is bad, reseat GPU or riser",
            measured=rate,
            expected=limits.per_minute,
            limit="per_minute",
        )
