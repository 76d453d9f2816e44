"""GPU temperature, and what is left of it before the GPU slows itself down."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import NODE, common_cause, supporting
from healthcheck.model import Action, Finding, Snapshot, fail, warn
from healthcheck.registry import check


class TemperatureLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In °C."""

    warn_c: Annotated[int, msgspec.Meta(ge=1, le=150)]
    fail_c: Annotated[int, msgspec.Meta(ge=1, le=150)]

    def __post_init__(self) -> None:
        """A warning must come before the failure."""
        if self.warn_c > self.fail_c:
            raise ValueError(f"warn_c ({self.warn_c}) is above fail_c ({self.fail_c})")


@check(
    "gpu-temperature",
    needs=("gpus",),
    limits=TemperatureLimits,
    source="nvmlDeviceGetTemperature against the limits of the GPU's type",
)
def gpu_temperature(node: Snapshot, limits: TemperatureLimits) -> Iterator[Finding]:
    """Every GPU is cooler than its profile allows.

    What it means: a hot GPU slows down under load, and makes every other GPU of its job wait.

    What we do: warn and fail at the profile's temperatures; where all GPUs are hot, one finding
    about the node's cooling.

    What to do: one GPU: reseat or clean its heat sink. All: fans, air flow, liquid loop, room.
    """
    gpus = supporting(node, "temperature_c")
    warm = [gpu for gpu in gpus if (gpu.temperature_c or 0) >= limits.warn_c]
    if common_cause(warm, gpus):
        hottest = max(gpu.temperature_c or 0 for gpu in warm)
        yield _hot(NODE, hottest, limits, f"all {len(gpus)} GPUs are hot, the hottest with ")
        return
    for gpu in warm:
        yield _hot(gpu.bus_id, gpu.temperature_c or 0, limits, "")


def _hot(subject: str, degrees: int, limits: TemperatureLimits, intro: str) -> Finding:
    failed = degrees >= limits.fail_c
    limit = limits.fail_c if failed else limits.warn_c
    return (fail if failed else warn)(
        subject,
        f"{intro}{degrees} °C, expected below {limit} °C: it will slow down under load",
        measured=degrees,
        expected=limit,
        action=Action.DRAIN if failed else Action.NONE,
        limit="fail_c" if failed else "warn_c",
    )


class MarginLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Degrees left before the GPU slows itself down."""

    warn_c: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    fail_c: Annotated[int, msgspec.Meta(ge=-50, le=100)] = 0

    def __post_init__(self) -> None:
        """A warning must come before the failure."""
        if self.warn_c < self.fail_c:
            raise ValueError(f"warn_c ({self.warn_c}) leaves less room than fail_c ({self.fail_c})")


@check(
    "gpu-thermal-margin",
    needs=("gpus",),
    limits=MarginLimits,
    source="nvmlDeviceGetMarginTemperature: degrees to the nearest slowdown threshold",
)
def gpu_thermal_margin(node: Snapshot, limits: MarginLimits) -> Iterator[Finding]:
    """Every GPU has degrees to spare before it slows itself down.

    What it means: at a margin of zero the GPU lowers its clocks, whatever its temperature reads.

    What we do: fail at or below `fail_c`, warn at or below `warn_c`.

    What to do: as for gpu-temperature.
    """
    gpus = supporting(node, "temperature_margin_c")
    tight = [g for g in gpus if g.temperature_margin_c is not None]
    tight = [g for g in tight if (g.temperature_margin_c or 0) <= limits.warn_c]
    if common_cause(tight, gpus):
        least = min(gpu.temperature_margin_c or 0 for gpu in tight)
        yield _tight(NODE, least, limits, f"all {len(gpus)} GPUs are near slowdown, the nearest ")
        return
    for gpu in tight:
        yield _tight(gpu.bus_id, gpu.temperature_margin_c or 0, limits, "")


def _tight(subject: str, margin: int, limits: MarginLimits, intro: str) -> Finding:
    failed = margin <= limits.fail_c
    limit = limits.fail_c if failed else limits.warn_c
    return (fail if failed else warn)(
        subject,
        f"{intro}{margin} °C left before thermal slowdown, expected more than {limit} °C",
        measured=margin,
        expected=limit,
        action=Action.DRAIN if failed else Action.NONE,
        limit="fail_c" if failed else "warn_c",
    )
