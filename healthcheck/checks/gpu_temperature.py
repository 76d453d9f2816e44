"""GPU temperature."""

from collections.abc import Iterator

import msgspec

from healthcheck.model import Finding, Snapshot, fail, warn
from healthcheck.registry import check


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In °C."""

    warn_c: int
    fail_c: int


@check("gpu-temperature", needs=("gpus",), limits=Limits)
def gpu_temperature(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Every GPU is cooler than its profile allows."""
    for gpu in node.gpus or ():
        if gpu.temperature_c is None:
            continue
        if gpu.temperature_c >= limits.fail_c:
            yield fail(
                gpu.bus_id,
                f"{gpu.temperature_c} °C, limit {limits.fail_c} °C",
                measured=gpu.temperature_c,
                expected=limits.fail_c,
                limit="fail_c",
            )
        elif gpu.temperature_c >= limits.warn_c:
            yield warn(
                gpu.bus_id,
                f"{gpu.temperature_c} °C, expected below {limits.warn_c} °C",
                measured=gpu.temperature_c,
                expected=limits.warn_c,
                limit="warn_c",
            )
