"""Spare memory of a GPU: row remapping (Ampere and later), page retirement (before), repairs."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import readable
from healthcheck.model import Action, Finding, NotApplicable, Snapshot, fail, warn
from healthcheck.registry import check


class RemapLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows remapped for uncorrectable errors in a GPU's life."""

    max_uncorrectable: Annotated[int, msgspec.Meta(ge=0)] = 512


@check(
    "gpu-row-remap",
    needs=("gpus",),
    limits=RemapLimits,
    source="NVIDIA A100 memory error management: row remapping; 512 rows: Azure",
)
def gpu_row_remap(node: Snapshot, limits: RemapLimits) -> Iterator[Finding]:
    """No GPU's memory has failed to be remapped or repaired, and none waits for it.

    What it means: since Ampere a GPU replaces bad rows of its memory by spare ones at its next
    reset. Until then new work is safe, since the bad memory is not handed out. A remap that
    failed means that the spares of that bank are used up.

    What we do: fail for a failed remap or too many of them, and for a pending hardware repair;
    warn for a pending remap.

    What to do: pending: reset the GPU when it is next idle. Failed or too many: replace it.
    """
    measured = False
    for gpu in readable(node):
        facts = (gpu.remap_failed, gpu.remap_pending, gpu.repair_pending)
        measured = measured or any(fact is not None for fact in facts)
        rows = gpu.remapped_uncorrectable
        if gpu.remap_failed:
            yield fail(
                gpu.bus_id,
                "a memory row could not be remapped: the GPU's spare rows are used up",
                measured=True,
                expected=False,
                action=Action.REPLACE,
            )
        elif rows is not None and rows > limits.max_uncorrectable:
            yield fail(
                gpu.bus_id,
                f"{rows} memory rows remapped for uncorrectable errors, expected at most "
                f"{limits.max_uncorrectable}",
                measured=rows,
                expected=limits.max_uncorrectable,
                action=Action.REPLACE,
                limit="max_uncorrectable",
            )
        if gpu.repair_pending:
            yield fail(
                gpu.bus_id,
                "a repair of the GPU's memory channel or TPC waits for a reset",
                measured=True,
                expected=False,
                action=Action.RESET_GPU,
            )
        if gpu.remap_pending and not gpu.remap_failed:
            yield warn(
                gpu.bus_id,
                "a memory row waits to be remapped; new work is safe, reset the GPU when it is "
                "next idle",
                measured=True,
                expected=False,
                action=Action.RESET_GPU,
            )
    if not measured:
        raise NotApplicable("no GPU here remaps rows")


class RetiredLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Retired pages, single and double bit together, at which a GPU is to be replaced."""

    max_pages: Annotated[int, msgspec.Meta(ge=1)] = 63


@check(
    "gpu-retired-pages",
    needs=("gpus",),
    limits=RetiredLimits,
    source="NVIDIA dynamic page retirement: 64 pages at most can be retired",
)
def gpu_retired_pages(node: Snapshot, limits: RetiredLimits) -> Iterator[Finding]:
    """Few memory pages are retired, and none waits for retirement.

    What it means: GPUs before Ampere take bad pages out of use at the driver's next start, 64 at
    most. With a page pending, the bad memory may still be handed out.

    What we do: fail while a page is pending, and near the end of what can be retired.

    What to do: pending: reset the GPU. Too many: replace it.
    """
    measured = False
    for gpu in readable(node):
        counts = (gpu.retired_pages_single_bit, gpu.retired_pages_double_bit)
        known = [count for count in counts if count is not None]
        measured = measured or bool(known) or gpu.retired_pages_pending is not None
        if known and sum(known) >= limits.max_pages:
            yield fail(
                gpu.bus_id,
                f"{sum(known)} memory pages retired, expected fewer than {limits.max_pages}",
                measured=sum(known),
                expected=limits.max_pages,
                action=Action.REPLACE,
                limit="max_pages",
            )
        if gpu.retired_pages_pending:
            yield fail(
                gpu.bus_id,
                "a bad memory page waits to be retired and may be handed out until a reset",
                measured=True,
                expected=False,
                action=Action.RESET_GPU,
            )
    if not measured:
        raise NotApplicable("no GPU here retires pages")
