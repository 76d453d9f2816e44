"""How fast the GPUs of a node reduce together, and who is slow."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.allreduce.middle import median
from healthcheck.allreduce.sizes import parse_size, show_size
from healthcheck.checks._allreduce import NODE, flown, got_far, name, subject
from healthcheck.checks._gpus import sustained
from healthcheck.model import Action, Finding, NotApplicable, Snapshot, fail, warn
from healthcheck.model.allreduce import AllreduceResult, BusBandwidth
from healthcheck.registry import check

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
POWER_BRAKE, HW_THERMAL = 0x80, 0x40
MIN_RUNS = 3


class BandwidthLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`busbw_gb_s`: reference by message size ("1G"), for `ranks` GPUs (0: any number).

    Below `fail_fraction` of the reference the node fails; below `warn_fraction` times that it is
    warned about. `usual_fraction`: of the median of the node's own earlier runs, from MIN_RUNS
    on. `late_fraction`: how late a rank may come, as a share of the time. `compute_fraction`: how
    much longer than the median GPU one may take for the same product.
    """

    busbw_gb_s: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    ranks: Annotated[int, msgspec.Meta(ge=0)] = 0
    fail_fraction: Share = 0.9
    warn_fraction: Annotated[float, msgspec.Meta(ge=1, le=2)] = 1.05
    usual_fraction: Share = 0.9
    late_fraction: Share = 0.25
    compute_fraction: Annotated[float, msgspec.Meta(gt=1)] = 1.15

    def __post_init__(self) -> None:
        """The sizes must be sizes."""
        for size in self.busbw_gb_s:
            parse_size(size)

    def reference(self, size: int) -> float | None:
        """The reference of the largest size that is not larger: more bytes are never slower."""
        known = {parse_size(text): value for text, value in self.busbw_gb_s.items()}
        fitting = [one for one in known if one <= size]
        return known[max(fitting)] if fitting else None


@check(
    "allreduce-bandwidth",
    limits=BandwidthLimits,
    source="nccl-tests' bus bandwidth, S/t · 2(n−1)/n, against the node type's and its own figures",
)
def allreduce_bandwidth(node: Snapshot, limits: BandwidthLimits) -> Iterator[Finding]:
    """The GPUs reduce together as fast as their type can and as this node used to.

    What it means: every step of a job waits for the slowest rank; one slow link or GPU slows all.

    What we do: fail below the profile's share of the reference, warn just above it, below the
    node's own earlier figures, where one rank is late, where one GPU computes slower than the
    others, and where GPUs are slowed down by heat or a power brake, or their PCIe link is
    narrower or slower under load than it can be. Among CPUs (gloo) only late ranks are judged.

    What to do: look at the named GPU's clocks, PCIe link and NVLinks; `flightcheck allreduce
    --paths nvls,ring,p2p,shm,nic` measures each path by itself.
    """
    result = flown(node)
    got_far(result)
    if result.ranks < 2:
        raise NotApplicable("one GPU has nobody to reduce with")
    for point in result.bandwidth:
        yield from _speed(result, point, limits)
        yield from _late(result, point, limits)
    if result.backend == "nccl":
        yield from _compute(result, limits)
        yield from _under_load(node, result)


def _speed(
    result: AllreduceResult, point: BusBandwidth, limits: BandwidthLimits
) -> Iterator[Finding]:
    if result.backend != "nccl":
        return
    measured = f"busbw {point.busbw_gb_s:.1f} GB/s for {show_size(point.bytes)}"
    reference = limits.reference(point.bytes) if limits.ranks in (0, result.ranks) else None
    whose = NODE if point.slowest_rank is None else subject(result, point.slowest_rank)
    slowest = "" if point.slowest_rank is None else f"; slowest: {name(result, point.slowest_rank)}"
    if reference is not None:
        least = limits.fail_fraction * reference
        failed = point.busbw_gb_s < least
        if failed or point.busbw_gb_s < limits.warn_fraction * least:
            near = "expected" if failed else f"within {limits.warn_fraction - 1:.0%} of the limit:"
            yield (fail if failed else warn)(
                whose,
                f"{measured} over {result.ranks} GPUs, {near} at least {least:.1f} "
                f"({limits.fail_fraction:g} × {reference:g}){slowest}",
                measured=round(point.busbw_gb_s, 2),
                expected=round(least, 2),
                action=Action.DRAIN if failed else Action.NONE,
                limit="busbw_gb_s",
            )
            return
    if point.usual_gb_s and point.usual_runs >= MIN_RUNS:
        least = limits.usual_fraction * point.usual_gb_s
        if point.busbw_gb_s < least:
            yield warn(
                whose,
                f"{measured}, while the last {point.usual_runs} good runs on this node gave "
                f"{point.usual_gb_s:.1f}{slowest}",
                measured=round(point.busbw_gb_s, 2),
                expected=round(least, 2),
                limit="usual_fraction",
            )


def _late(
    result: AllreduceResult, point: BusBandwidth, limits: BandwidthLimits
) -> Iterator[Finding]:
    if point.slowest_rank is None or point.late_s is None or point.median_s <= 0:
        return
    share = point.late_s / point.median_s
    if share < limits.late_fraction:
        return
    yield warn(
        subject(result, point.slowest_rank),
        f"{name(result, point.slowest_rank)} comes {point.late_s * 1e3:.1f} ms late to an "
        f"all_reduce of {show_size(point.bytes)} that takes {point.median_s * 1e3:.1f} ms: the "
        "others wait for it",
        measured=round(share, 3),
        expected=limits.late_fraction,
        limit="late_fraction",
    )


def _compute(result: AllreduceResult, limits: BandwidthLimits) -> Iterator[Finding]:
    """GPUs that take longer than the median one for the same product."""
    for dtype in dict.fromkeys(one.dtype for one in result.compute):
        same = [one for one in result.compute if one.dtype == dtype]
        usual = median(one.seconds for one in same)
        for one in same:
            if len(same) > 2 and one.seconds > limits.compute_fraction * usual > 0:
                yield warn(
                    subject(result, one.rank),
                    f"{name(result, one.rank)} takes {one.seconds * 1e3:.2f} ms for a {dtype} "
                    f"product of {one.size}², the median GPU of this node {usual * 1e3:.2f} ms",
                    measured=round(one.seconds / usual, 3),
                    expected=limits.compute_fraction,
                    limit="compute_fraction",
                )


def _under_load(node: Snapshot, result: AllreduceResult) -> Iterator[Finding]:
    """What the GPUs' own instruments said while they worked."""
    most = {gpu.bus_id: (gpu.pcie_generation_max, gpu.pcie_width_max) for gpu in node.gpus or ()}
    for bus_id in dict.fromkeys(sample.bus_id for sample in result.samples):
        own = [sample for sample in result.samples if sample.bus_id == bus_id]
        reasons = [s.clock_event_reasons for s in own if s.clock_event_reasons is not None]
        for bit, words in ((POWER_BRAKE, "a power brake"), (HW_THERMAL, "its temperature")):
            if sustained(reasons, bit):
                yield warn(
                    bus_id,
                    f"slowed down by {words} while it reduced (in most of {len(reasons)} samples)",
                    measured=f"{bit:#x}",
                )
        generation, width = most.get(bus_id, (None, None))
        best = max((s.pcie_generation or 0 for s in own), default=0)
        if generation and 0 < best < generation:
            yield warn(
                bus_id,
                f"PCIe generation {best} even under load, expected {generation}",
                measured=best,
                expected=generation,
            )
        widest = max((s.pcie_width or 0 for s in own), default=0)
        if width and 0 < widest < width:
            yield warn(
                bus_id,
                f"PCIe width x{widest} under load, expected x{width}",
                measured=widest,
                expected=width,
            )
