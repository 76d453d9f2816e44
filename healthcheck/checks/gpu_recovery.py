"""What the driver itself says a GPU needs."""

from collections.abc import Iterator

from healthcheck.checks._gpus import NODE, common_cause, supporting
from healthcheck.model import Action, Finding, Snapshot, fail
from healthcheck.registry import NoLimits, check

_ACTIONS = {
    1: ("reset the GPU", Action.RESET_GPU),
    2: ("reboot the node", Action.REBOOT),
    3: ("drain peer-to-peer traffic: no new work on this GPU", Action.DRAIN),
    4: ("drain the GPU and reset it", Action.RESET_GPU),
    5: ("recover the IMEX domain; reboot if that does not help", Action.REBOOT),
    6: ("reset the GPU's bus", Action.RESET_GPU),
    7: ("reboot the system", Action.REBOOT),
}


@check(
    "gpu-recovery-action",
    needs=("gpus",),
    source="NVML field GET_GPU_RECOVERY_ACTION (230), driver 570 and later",
)
def gpu_recovery_action(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """The driver asks for no recovery action on any GPU.

    What it means: since driver 570 the driver itself says how a GPU gets out of its fault.

    What we do: fail on any action asked for, and pass it on.

    What to do: what the driver says: reset, reboot, or drain.
    """
    gpus = supporting(node, "recovery_action")
    bad = [gpu for gpu in gpus if gpu.recovery_action]
    if common_cause(bad, gpus) and len({gpu.recovery_action for gpu in bad}) == 1:
        yield _asked(NODE, bad[0].recovery_action or 0, f" on all {len(bad)} GPUs")
        return
    for gpu in bad:
        yield _asked(gpu.bus_id, gpu.recovery_action or 0, "")


def _asked(subject: str, code: int, where: str) -> Finding:
    text, action = _ACTIONS.get(code, ("one that this release does not know", Action.DRAIN))
    return fail(
        subject,
        f"the driver asks for recovery action {code}{where}: {text}",
        measured=code,
        expected=0,
        action=action,
    )
