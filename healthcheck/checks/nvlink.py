"""NVLinks: how many are up, and how fast."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import NODE, common_cause, ranges, readable
from healthcheck.model import Action, Finding, Gpu, NotApplicable, Snapshot, fail
from healthcheck.registry import check


def whole_gpus(node: Snapshot) -> tuple[Gpu, ...]:
    """Readable GPUs that are not cut up by MIG. Raises NotApplicable where there is none."""
    gpus = tuple(gpu for gpu in readable(node) if not gpu.mig_enabled)
    if not gpus:
        raise NotApplicable("all GPUs are in MIG mode, which has no NVLink")
    return gpus


class LinkLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Active NVLinks of each GPU."""

    links: Annotated[int, msgspec.Meta(ge=1, le=36)]


@check(
    "nvlink-links",
    needs=("gpus",),
    limits=LinkLimits,
    source="nvmlDeviceGetNvLinkState against the links of the GPU's type",
)
def nvlink_links(node: Snapshot, limits: LinkLimits) -> Iterator[Finding]:
    """Every GPU has all its NVLinks active.

    What it means: each missing link costs its share of bandwidth to all other GPUs; with none,
    NCCL falls back to PCIe or host memory without a word.

    What we do: fail with fewer active links than the node type has, naming them. All GPUs at once
    are one finding about the fabric manager or the NVSwitches.

    What to do: reset the GPU, then reboot; if the same link stays down, hardware service. All
    GPUs: look at the nvidia-fabricmanager service first.
    """
    gpus = whole_gpus(node)
    short = [gpu for gpu in gpus if _active(gpu) < limits.links]
    if common_cause(short, gpus) and len({_active(gpu) for gpu in short}) == 1:
        active = _active(short[0])
        yield _short(
            NODE,
            active,
            limits,
            f"{active} of {limits.links} NVLinks active on all {len(gpus)} GPUs: the fabric "
            "manager or an NVSwitch",
            Action.REBOOT,
        )
        return
    for gpu in short:
        active = _active(gpu)
        yield _short(
            gpu.bus_id,
            active,
            limits,
            f"{active} of {limits.links} NVLinks active{_down(gpu, limits.links)}",
            Action.RESET_GPU,
        )


def _active(gpu: Gpu) -> int:
    return sum(1 for link in gpu.nvlinks or () if link.active)


def _down(gpu: Gpu, expected: int) -> str:
    links = gpu.nvlinks or ()
    down = [link.index for link in links if link.active is False]
    silent = [link.index for link in links if link.active is None]
    absent = sorted(set(range(expected)) - {link.index for link in links})
    told = [
        f"{word} {ranges(numbers)}"
        for word, numbers in (("down", down), ("not answering", silent), ("not reported", absent))
        if numbers
    ]
    return f" ({'; '.join(told)})" if told else ""


def _short(subject: str, active: int, limits: LinkLimits, message: str, action: Action) -> Finding:
    return fail(
        subject, message, measured=active, expected=limits.links, action=action, limit="links"
    )


class SpeedLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Speed of one link in MB/s, as NVML reports it."""

    speed_mb_s: Annotated[int, msgspec.Meta(ge=1)]


@check(
    "nvlink-speed",
    needs=("gpus",),
    limits=SpeedLimits,
    source="NVML field NVLINK_GET_SPEED (164) against the speed of the GPU's type",
)
def nvlink_speed(node: Snapshot, limits: SpeedLimits) -> Iterator[Finding]:
    """Every active NVLink runs at its full speed.

    What it means: a link that came up slower holds back every transfer that crosses it.

    What we do: fail where an active link is slower than the node type's. Links that are down are
    told by nvlink-links.

    What to do: reset the GPU, then reboot; if it stays, hardware service.
    """
    gpus = whole_gpus(node)
    speeds = [
        (gpu, link.index, link.speed_mb_s)
        for gpu in gpus
        for link in gpu.nvlinks or ()
        if link.active and link.speed_mb_s is not None
    ]
    if not speeds:
        raise NotApplicable("no active NVLink reports its speed")
    for gpu in gpus:
        slow = [(i, s) for g, i, s in speeds if g is gpu and s < limits.speed_mb_s]
        if slow:
            slowest = min(speed for _, speed in slow)
            yield fail(
                gpu.bus_id,
                f"{len(slow)} NVLinks slow (links {ranges([i for i, _ in slow])}): {slowest} MB/s, "
                f"expected {limits.speed_mb_s} MB/s",
                measured=slowest,
                expected=limits.speed_mb_s,
                action=Action.RESET_GPU,
                limit="speed_mb_s",
            )
