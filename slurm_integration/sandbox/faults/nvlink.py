"""NVLink, the NVSwitch fabric and peer-to-peer access."""

from msgspec.structs import replace

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import edit_gpu, edit_gpus, edit_link, gpu_of, nvml_of
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass, unchanged
from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.nvml.model import SimulatedP2p

LINK = 7
_NVLINK = ("nvlink",)
_BRIDGED = ("h100-nvl",)
"""Its bridges are sold apart, so its profile expects none."""


@fault("nvlink-down", "nvlink-links", action=Action.RESET_GPU, needs=_NVLINK, not_on=_BRIDGED)
def nvlink_down(machine: Machine, target: Target) -> Machine:
    """One NVLink of one GPU is inactive."""
    return edit_link(machine, target, LINK, active=False)


@fault("nvlink-missing", "nvlink-links", action=Action.RESET_GPU, needs=_NVLINK, not_on=_BRIDGED)
def nvlink_missing(machine: Machine, target: Target) -> Machine:
    """The GPU shows two links fewer than its type has."""
    return edit_gpu(machine, target, nvlinks=gpu_of(machine, target).nvlinks[:-2])


@fault("nvlink-slow", "nvlink-speed", action=Action.RESET_GPU, needs=_NVLINK,
       not_on=(*_BRIDGED, "a100-sxm-40", "a100-sxm-80"))  # fmt: skip
def nvlink_slow(machine: Machine, target: Target) -> Machine:
    """One NVLink has trained at half its speed."""
    speed = gpu_of(machine, target).nvlinks[LINK].speed_mbps or 0
    return edit_link(machine, target, LINK, speed_mbps=speed // 2)


@fault("nvlink-replay", "nvlink-errors", Severity.WARN, needs=("nvlink", "nvlink4"))
def nvlink_replay(machine: Machine, target: Target) -> Machine:
    """One NVLink sends thousands of packets again."""
    return edit_link(machine, target, LINK, replay_errors=9000)


@fault("nvlink-crc", "nvlink-errors", Severity.WARN, needs=("nvlink", "nvlink4"))
def nvlink_crc(machine: Machine, target: Target) -> Machine:
    """One NVLink receives thousands of damaged flits."""
    return edit_link(machine, target, LINK, crc_flit_errors=90_000)


@fault("nvlink-recovery", "nvlink-errors", action=Action.RESET_GPU, needs=("nvlink", "nvlink4"))
def nvlink_recovery(machine: Machine, target: Target) -> Machine:
    """One NVLink had to recover since the last look."""
    return edit_link(machine, target, LINK, recovery_errors=2)


@fault("nvlink-recovery-failed", "nvlink-errors", action=Action.RESET_GPU, needs=("nvlink5",))
def nvlink_recovery_failed(machine: Machine, target: Target) -> Machine:
    """An NVLink 5 link failed to recover since the last look."""
    return edit_link(machine, target, LINK, recovery_failed_events=1, recovery_events=1)


@fault("nvlink-integrity", "nvlink-errors", Severity.WARN, needs=("nvlink5",))
def nvlink_integrity(machine: Machine, target: Target) -> Machine:
    """An NVLink 5 link counts thousands of integrity errors."""
    return edit_link(machine, target, LINK, local_integrity_errors=9000)


def _old_errors(machine: Machine, target: Target) -> Machine:
    return edit_link(machine, target, LINK, replay_errors=70_000, crc_flit_errors=12_000)


@must_pass("nvlink-old-errors", needs=("nvlink4", "nvlink"), past=_old_errors)
def nvlink_old_errors(machine: Machine, target: Target) -> Machine:
    """NVLink errors that are all older than the last look."""
    return unchanged(machine, target)


@fault("fabric-not-ready", "nvlink-fabric", action=Action.REBOOT, needs=("fabric",))
def fabric_not_ready(machine: Machine, target: Target) -> Machine:
    """The GPUs have not been registered with the NVSwitch fabric, long after the boot."""
    return edit_gpus(machine, fabric_state=1)


@fault("fabric-failed", "nvlink-fabric", action=Action.REBOOT, needs=("fabric",))
def fabric_failed(machine: Machine, target: Target) -> Machine:
    """One GPU's registration with the fabric ended with an error."""
    return edit_gpu(machine, target, fabric_status=999)


@fault("fabric-unhealthy", "nvlink-fabric", action=Action.REBOOT, needs=("fabric",))
def fabric_unhealthy(machine: Machine, target: Target) -> Machine:
    """The driver sums up one GPU's fabric as unhealthy."""
    return edit_gpu(machine, target, fabric_health_summary=2, fabric_health_mask=0b01)


@fault("fabric-degraded", "nvlink-fabric", Severity.WARN, Action.RESET_GPU, needs=("fabric",))
def fabric_degraded(machine: Machine, target: Target) -> Machine:
    """One GPU's fabric has limited capacity: some of its links were switched off."""
    return edit_gpu(machine, target, fabric_health_summary=3, fabric_health_mask=0b01)


@fault("p2p-broken", "nvlink-p2p", action=Action.RESET_GPU, needs=("nvswitch",))
def p2p_broken(machine: Machine, target: Target) -> Machine:
    """Two GPUs can't reach each other over NVLink: NCCL would fall back without a word."""
    other = 0 if target.gpu else 1
    pair = SimulatedP2p(gpus=(min(other, target.gpu), max(other, target.gpu)))
    return replace(machine, nvml=replace(nvml_of(machine), p2p=(pair,)))
