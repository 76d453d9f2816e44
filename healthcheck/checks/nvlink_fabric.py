"""The NVSwitch fabric: whether each GPU has joined it and is well there."""

from collections.abc import Iterator

import msgspec

from healthcheck.checks._gpus import NODE, gather
from healthcheck.checks.nvlink import whole_gpus
from healthcheck.model import (
    Action,
    Fabric,
    Finding,
    Gpu,
    NotApplicable,
    Snapshot,
    Unmeasured,
    fail,
    warn,
)
from healthcheck.registry import check

_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
_NOT_SUPPORTED, _IN_PROGRESS, _COMPLETED = 0, 2, 3
_UNHEALTHY, _LIMITED = 2, 3
STARTING_S = 300.0
"""After boot the fabric manager trains all links; it needs about a minute."""
_TRUE = 1
_MASK = (
    ("route unhealthy", 4, 0x3),
    ("recovering routes", 2, 0x3),
    ("recovering from access time-outs", 6, 0x3),
    ("degraded bandwidth", 0, 0x3),
)
"""Name, shift and width in the health mask; each field is 0 unsupported, 1 true, 2 false."""


class FabricLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether GPUs of this node type register with an NVSwitch fabric (Hopper and later)."""

    required: bool


@check(
    "nvlink-fabric",
    needs=("gpus",),
    limits=FabricLimits,
    source="nvmlDeviceGetGpuFabricInfoV of NVIDIA's NVML API reference",
)
def nvlink_fabric(node: Snapshot, limits: FabricLimits) -> Iterator[Finding]:
    """Every GPU has joined the NVSwitch fabric, and the fabric is healthy.

    What it means: a GPU that has not joined cannot be used by CUDA together with others: jobs
    fail at start with "system not yet initialized".

    What we do: fail where registration is not completed (only warn within five minutes of boot),
    ended with an error, or is unhealthy; warn where bandwidth is limited. All GPUs at once are
    one finding about the fabric manager.

    What to do: `systemctl status nvidia-fabricmanager`; restart it with the node drained, then
    reboot. On GB200 look at the NVLink domain's management and the IMEX service.
    """
    gpus = [gpu for gpu in whole_gpus(node) if limits.required or _registers(gpu)]
    if not gpus:
        raise NotApplicable("no GPU here registers with an NVSwitch fabric")
    if all(gpu.fabric is None for gpu in gpus):
        raise Unmeasured("this driver does not tell whether GPUs have joined the fabric")
    found = [finding for gpu in gpus for finding in _judge(gpu, node.uptime_s)]
    yield from gather(found, gpus)
    yield from _split(gpus)


def _registers(gpu: Gpu) -> bool:
    return gpu.fabric is not None and gpu.fabric.state != _NOT_SUPPORTED


def _judge(gpu: Gpu, uptime_s: float | None) -> Iterator[Finding]:
    """At most one finding."""
    fabric = gpu.fabric
    if fabric is None or fabric.state != _COMPLETED:
        yield _not_joined(gpu, fabric, uptime_s)
    elif fabric.status != 0:
        yield _fault(gpu, f"NVSwitch fabric registration ended with error {fabric.status}", "error")
    elif fabric.summary == _UNHEALTHY or "route unhealthy" in _told(fabric):
        why = f" ({', '.join(_told(fabric))})" if _told(fabric) else ""
        yield _fault(gpu, f"the GPU is unhealthy in the NVSwitch fabric{why}", "unhealthy")
    elif fabric.summary == _LIMITED or _told(fabric):
        why = f" ({', '.join(_told(fabric))})" if _told(fabric) else ""
        yield warn(
            gpu.bus_id,
            f"the NVSwitch fabric has limited capacity for this GPU{why}",
            measured="limited",
            expected="healthy",
            action=Action.RESET_GPU,
        )


def _told(fabric: Fabric) -> list[str]:
    mask = fabric.health_mask or 0
    return [name for name, shift, width in _MASK if mask >> shift & width == _TRUE]


def _fault(gpu: Gpu, message: str, measured: str) -> Finding:
    return fail(gpu.bus_id, message, measured=measured, expected="healthy", action=Action.REBOOT)


def _not_joined(gpu: Gpu, fabric: Fabric | None, uptime_s: float | None) -> Finding:
    state = "not reported" if fabric is None else _STATES.get(fabric.state, str(fabric.state))
    starting = (
        fabric is not None
        and fabric.state == _IN_PROGRESS
        and uptime_s is not None
        and uptime_s < STARTING_S
    )
    wait = f", {uptime_s:.0f} s after boot" if starting and uptime_s is not None else ""
    return (warn if starting else fail)(
        gpu.bus_id,
        f"NVSwitch fabric registration is {state}{wait}, expected completed: CUDA cannot use the "
        "GPU together with others",
        measured=state,
        expected="completed",
        action=Action.NONE if starting else Action.REBOOT,
        limit="required",
    )


def _split(gpus: list[Gpu]) -> Iterator[Finding]:
    """GPUs of one node must be in one clique of one cluster."""
    homes = {
        (gpu.fabric.cluster_uuid, gpu.fabric.clique_id)
        for gpu in gpus
        if gpu.fabric is not None and gpu.fabric.state == _COMPLETED and gpu.fabric.status == 0
    }
    if len(homes) > 1:
        names = sorted(f"{uuid or 'local'}/{clique}" for uuid, clique in homes)
        yield fail(
            NODE,
            f"the GPUs are in {len(homes)} different NVLink cliques ({', '.join(names)}), "
            "expected one",
            measured=len(homes),
            expected=1,
            action=Action.REBOOT,
        )
