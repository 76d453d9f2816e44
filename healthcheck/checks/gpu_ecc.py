"""ECC: memory errors of a GPU since the last look."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import readable
from healthcheck.model import Action, Finding, Gpu, NotApplicable, Snapshot, fail, info, warn
from healthcheck.registry import check


class EccLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Corrected errors an hour from which a GPU deserves a look."""

    corrected_per_hour_warn: Annotated[float, msgspec.Meta(gt=0)] = 1000.0


@check(
    "gpu-ecc",
    needs=("gpus",),
    limits=EccLimits,
    source="NVIDIA GPU memory error management: an uncorrected error needs a reset",
)
def gpu_ecc(node: Snapshot, limits: EccLimits) -> Iterator[Finding]:
    """No GPU has had an uncorrected memory error since the last look.

    What it means: an uncorrected error is data that a GPU could not give back. The process that
    used it dies, and the bad memory is taken out of use only by a reset. Counts of a GPU's whole
    life say nothing about now and are not judged.

    What we do: fail on growth of the uncorrected counter since the baseline; warn where there is
    no baseline yet and errors since the driver's start exist, and where corrected errors come
    quickly; fail where the GPU says its SRAM has passed NVIDIA's threshold.

    What to do: drain, reset the GPU (or reboot). Errors again after a reset, or the SRAM
    threshold: replace the GPU.
    """
    measured = False
    for gpu in readable(node):
        if gpu.sram_threshold_exceeded:
            yield fail(
                gpu.bus_id,
                "the GPU reports that its SRAM errors have passed NVIDIA's replacement threshold",
                measured=True,
                expected=False,
                action=Action.REPLACE,
            )
        if gpu.ecc_enabled is False or not _counts(gpu):
            measured = measured or gpu.sram_threshold_exceeded is not None
            continue
        measured = True
        yield from _uncorrected(node, gpu)
        yield from _corrected(node, gpu, limits)
    if not measured:
        raise NotApplicable("ECC is off, or no GPU here reports its errors")


def _counts(gpu: Gpu) -> bool:
    counts = (gpu.ecc_volatile_uncorrected, gpu.ecc_aggregate_uncorrected)
    return any(count is not None for count in counts)


def _uncorrected(node: Snapshot, gpu: Gpu) -> Iterator[Finding]:
    volatile, aggregate = gpu.ecc_volatile_uncorrected, gpu.ecc_aggregate_uncorrected
    grown = node.growth(gpu.bus_id, "ecc_volatile_uncorrected", volatile)
    life = node.growth(gpu.bus_id, "ecc_aggregate_uncorrected", aggregate, lifetime=True)
    if grown is not None and grown.delta > 0:
        yield _failed(gpu, grown.delta, "since the driver's start" if grown.restarted else "")
    elif life is not None and life.delta > 0:
        # Without persistence mode the driver forgets its volatile counters after each user.
        if volatile is None or gpu.persistence_mode is False:
            yield _failed(gpu, life.delta, "in the lifetime counter")
        else:
            yield info(
                gpu.bus_id,
                f"{life.delta} uncorrected memory errors before the driver's last start, "
                "none since",
                measured=life.delta,
            )
    elif grown is None and volatile:
        yield warn(
            gpu.bus_id,
            f"{volatile} uncorrected memory errors since the driver's start, and no earlier look "
            "that would tell when: reset the GPU when it is idle",
            measured=volatile,
            expected=0,
            action=Action.RESET_GPU,
        )


def _failed(gpu: Gpu, count: int, where: str) -> Finding:
    return fail(
        gpu.bus_id,
        f"{count} new uncorrected memory errors since the last look"
        f"{f' ({where})' if where else ''}, expected 0: data on this GPU was lost",
        measured=count,
        expected=0,
        action=Action.RESET_GPU,
    )


def _corrected(node: Snapshot, gpu: Gpu, limits: EccLimits) -> Iterator[Finding]:
    grown = node.growth(gpu.bus_id, "ecc_volatile_corrected", gpu.ecc_volatile_corrected)
    if grown is None or grown.per_hour() <= limits.corrected_per_hour_warn:
        return
    yield warn(
        gpu.bus_id,
        f"{grown.delta} corrected memory errors in {grown.seconds / 60:.0f} min, expected at most "
        f"{limits.corrected_per_hour_warn:g} an hour: the memory may be failing",
        measured=round(grown.per_hour(), 1),
        expected=limits.corrected_per_hour_warn,
        limit="corrected_per_hour_warn",
    )
