"""The power a GPU is allowed and given."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import NODE, common_cause, gather
from healthcheck.model import Action, Finding, Gpu, NotApplicable, Snapshot, fail, warn
from healthcheck.registry import check

INSUFFICIENT_POWER = 8
_BATTERY, _UNDERSIZED = 1, 2
_TOLERANCE_W = 1.0


class PowerLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`limit_w`: what a GPU of this type may draw; without it, the GPU's own default counts."""

    limit_w: Annotated[float, msgspec.Meta(gt=0)] | None = None


@check(
    "gpu-power-limit",
    needs=("gpus",),
    limits=PowerLimits,
    source="NVML power limits, power source and NVML_ERROR_INSUFFICIENT_POWER",
)
def gpu_power_limit(node: Snapshot, limits: PowerLimits) -> Iterator[Finding]:
    """Every GPU has all the power connected and allowed that its type draws.

    What it means: a GPU held below its power limit, or fed by too small a supply, is the slowest
    of its job.

    What we do: fail where the driver says that power is insufficient or the supply undersized,
    and where something enforces less than was set; warn where an administrator has set less than
    the type's limit. All GPUs at once are one finding about the node.

    What to do: check power cables, supplies and the server's power policy; a limit that was set:
    `nvidia-smi -pl`.
    """
    gpus = tuple(node.gpus or ())
    if not gpus:
        raise NotApplicable("NVML shows no GPU")
    starved = [gpu for gpu in gpus if _insufficient(gpu)]
    yield from _gathered(starved, gpus, "NVML_ERROR_INSUFFICIENT_POWER", _STARVED)
    small = [gpu for gpu in gpus if gpu.power_source == _UNDERSIZED]
    yield from _gathered(small, gpus, "undersized", _SMALL)
    for gpu in gpus:
        if gpu.power_source == _BATTERY:
            yield warn(gpu.bus_id, "runs on battery, expected AC power", measured="battery")
    held = [finding for gpu in gpus for finding in _held(gpu, limits)]
    yield from gather(held, gpus)
    measured = any(g.power_limit_enforced_w or g.power_source is not None for g in gpus)
    if not measured and not starved:
        raise NotApplicable("no GPU here reports its power")


_STARVED = "the driver reports that external power is missing (NVML_ERROR_INSUFFICIENT_POWER)"
_SMALL = "the driver calls the power source undersized"


def _insufficient(gpu: Gpu) -> bool:
    errors = (*gpu.errors, *([gpu.handle_error] if gpu.handle_error else ()))
    return any(error.code == INSUFFICIENT_POWER for error in errors)


def _gathered(
    bad: list[Gpu], gpus: tuple[Gpu, ...], measured: str, message: str
) -> Iterator[Finding]:
    subjects = [gpu.bus_id or f"GPU {gpu.index}" for gpu in bad]
    where = ": look at its power cable and slot"
    if common_cause(bad, gpus):
        subjects, where = [NODE], f" for all {len(gpus)} GPUs: look at the node's power supplies"
    for subject in subjects:
        yield fail(
            subject,
            f"{message}{where}",
            measured=measured,
            expected="sufficient power",
            action=Action.DRAIN,
        )


def _held(gpu: Gpu, limits: PowerLimits) -> Iterator[Finding]:
    """At most one finding: less is enforced than was set, or less was set than belongs."""
    enforced, asked = gpu.power_limit_enforced_w, gpu.power_limit_w
    usual = limits.limit_w or gpu.power_limit_default_w
    if enforced is None or gpu.handle_error is not None:
        return
    if asked is not None and enforced < asked - _TOLERANCE_W:
        yield fail(
            gpu.bus_id,
            f"{enforced:.0f} W are enforced where {asked:.0f} W are set: something outside the GPU "
            "holds its power down",
            measured=enforced,
            expected=asked,
            action=Action.DRAIN,
        )
    elif usual is not None and enforced < usual - _TOLERANCE_W:
        yield warn(
            gpu.bus_id,
            f"the power limit is {enforced:.0f} W, expected {usual:.0f} W: the GPU will be slower "
            "than others of its job",
            measured=enforced,
            expected=usual,
            limit="limit_w" if limits.limit_w else None,
        )
