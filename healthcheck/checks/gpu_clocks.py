"""SM clocks: what a GPU could reach, and what it does under load."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import gather, readable
from healthcheck.model import Action, Finding, Gpu, NotApplicable, Snapshot, fail, warn
from healthcheck.registry import check

BUSY_PERCENT = 90
_IDLE, _CLOCKS_SET = 0x1, 0x2


class ClockLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`max_sm_mhz`: the SM clock a GPU of this type can reach. `under_load_fraction` of it must
    be there while the GPU works."""

    max_sm_mhz: Annotated[int, msgspec.Meta(ge=1)]
    under_load_fraction: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5


@check(
    "gpu-clocks",
    needs=("gpus",),
    limits=ClockLimits,
    source="nvmlDeviceGetClockInfo and nvmlDeviceGetMaxClockInfo of NVIDIA's NVML API reference",
)
def gpu_clocks(node: Snapshot, limits: ClockLimits) -> Iterator[Finding]:
    """Every GPU can reach its type's clock, and a busy one is not far below it.

    What it means: a GPU that works at half its clock makes every GPU of its job wait. An idle
    GPU's low clock is normal and not judged.

    What we do: fail where a busy GPU runs below the fraction; warn where clocks are locked low by
    a setting, or the GPU's maximum is below its type's.

    What to do: look at gpu-throttle and gpu-power-brake for the cause; `nvidia-smi -rgc` takes
    back a clock lock.
    """
    gpus = [gpu for gpu in readable(node) if gpu.sm_clock_max_mhz or gpu.sm_clock_mhz]
    if not gpus:
        raise NotApplicable("no GPU here reports its clocks")
    low = [
        warn(
            gpu.bus_id,
            f"the SM clock can reach {gpu.sm_clock_max_mhz} MHz, expected {limits.max_sm_mhz} MHz",
            measured=gpu.sm_clock_max_mhz,
            expected=limits.max_sm_mhz,
            limit="max_sm_mhz",
        )
        for gpu in gpus
        if gpu.sm_clock_max_mhz is not None and gpu.sm_clock_max_mhz < limits.max_sm_mhz
    ]
    yield from gather(low, gpus)
    for gpu in gpus:
        if gpu.sm_clock_mhz is not None and _busy(gpu):
            yield from _under_load(gpu, gpu.sm_clock_mhz, limits)


def _busy(gpu: Gpu) -> bool:
    """Utilization looks back up to a second; the idle bit says whether it still works now."""
    idle = any(mask & _IDLE for mask in gpu.clock_event_reasons)
    return (gpu.utilization_percent or 0) >= BUSY_PERCENT and not idle


def _under_load(gpu: Gpu, clock: int, limits: ClockLimits) -> Iterator[Finding]:
    floor = limits.max_sm_mhz * limits.under_load_fraction
    if clock >= floor:
        return
    locked = any(mask & _CLOCKS_SET for mask in gpu.clock_event_reasons)
    why = "locked low by a setting" if locked else "with no setting that asks for it"
    yield (warn if locked else fail)(
        gpu.bus_id,
        f"SM clock {clock} MHz at {gpu.utilization_percent} % load, expected at least "
        f"{floor:.0f} MHz: {why}",
        measured=clock,
        expected=round(floor),
        action=Action.NONE if locked else Action.DRAIN,
        limit="under_load_fraction",
    )
