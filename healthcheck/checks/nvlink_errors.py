"""Errors on NVLinks since the last look."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import ranges
from healthcheck.checks.nvlink import whole_gpus
from healthcheck.model import Action, Finding, Gpu, Growth, NotApplicable, Snapshot, fail, warn
from healthcheck.registry import check

_RECOVERIES = ("recovery_errors", "recovery_failed_events")


class ErrorLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Errors an hour on one link that a healthy link stays below."""

    replay_per_hour: Annotated[float, msgspec.Meta(gt=0)] = 100.0
    crc_per_hour: Annotated[float, msgspec.Meta(gt=0)] = 100.0


_RATES = (
    ("replay_errors", "replay_per_hour", "replays"),
    ("integrity_errors", "replay_per_hour", "link integrity errors"),
    ("crc_flit_errors", "crc_per_hour", "flit CRC errors"),
    ("crc_data_errors", "crc_per_hour", "data CRC errors"),
)


@check(
    "nvlink-errors",
    needs=("gpus",),
    limits=ErrorLimits,
    source="NVLink error counters of NVIDIA's NVML API reference; the rates are our own",
)
def nvlink_errors(node: Snapshot, limits: ErrorLimits) -> Iterator[Finding]:
    """No NVLink had to recover since the last look, and replays and CRC errors are rare.

    What it means: a link that recovers was down for a moment, and a job that used it may have
    died. Replays and CRC errors are repaired by the link, at the cost of speed.

    What we do: fail on any growth of the recovery counter, warn on high rates of the others. All
    counts are since the baseline; one finding a GPU and kind, naming the links.

    What to do: reset the GPU; the same link again: reseat the board or call hardware service.
    """
    gpus = [gpu for gpu in whole_gpus(node) if gpu.nvlinks]
    if not gpus:
        raise NotApplicable("no GPU here has NVLinks")
    for gpu in gpus:
        recovered = [pair for counter in _RECOVERIES for pair in _grown(node, gpu, counter)]
        recovered = [(link, grown) for link, grown in recovered if grown.delta > 0]
        if recovered:
            total = sum(grown.delta for _, grown in recovered)
            yield fail(
                gpu.bus_id,
                f"{total} NVLink recoveries since the last look (links "
                f"{ranges([link for link, _ in recovered])}), expected 0",
                measured=total,
                expected=0,
                action=Action.RESET_GPU,
            )
        for counter, field, what in _RATES:
            yield from _rate(node, gpu, counter, getattr(limits, field), field, what)


def _grown(node: Snapshot, gpu: Gpu, counter: str) -> Iterator[tuple[int, Growth]]:
    for link in gpu.nvlinks or ():
        name = f"nvlink{link.index}_{counter}"
        grown = node.growth(gpu.bus_id, name, getattr(link, counter))
        if grown is not None:
            yield link.index, grown


def _rate(
    node: Snapshot, gpu: Gpu, counter: str, limit: float, field: str, what: str
) -> Iterator[Finding]:
    high = [(i, grown) for i, grown in _grown(node, gpu, counter) if grown.per_hour() > limit]
    if not high:
        return
    worst = max(grown.per_hour() for _, grown in high)
    yield warn(
        gpu.bus_id,
        f"{worst:.0f} {what} an hour on NVLinks {ranges([i for i, _ in high])}, expected at most "
        f"{limit:g}",
        measured=round(worst, 1),
        expected=limit,
        limit=field,
    )
