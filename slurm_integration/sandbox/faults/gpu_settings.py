"""Driver settings, modes, firmware and what earlier jobs left behind."""

from msgspec.structs import replace

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import edit_gpu, edit_gpus, nvml_of
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass
from slurm_integration.sandbox.machine.description import Machine, Task
from slurm_integration.sandbox.nvml.model import SimulatedProcess

LEFTOVER_PID = 30_551


@fault("persistence-off", "gpu-persistence", Severity.WARN)
def persistence_off(machine: Machine, target: Target) -> Machine:
    """Persistence mode is off on all GPUs: each job pays seconds, error counters vanish."""
    return edit_gpus(machine, persistence_mode=False)


@fault("ecc-off", "gpu-modes", action=Action.RESET_GPU, not_on=("l40s-pcie",))
def ecc_off(machine: Machine, target: Target) -> Machine:
    """Memory protection (ECC) is switched off on one GPU."""
    return edit_gpu(machine, target, ecc_mode=False, ecc_mode_pending=False)


@fault("ecc-pending", "gpu-modes", Severity.WARN, Action.RESET_GPU)
def ecc_pending(machine: Machine, target: Target) -> Machine:
    """ECC will be off after the next reset: the change waits."""
    return edit_gpu(machine, target, ecc_mode_pending=False)


@fault("mig-pending", "gpu-modes", Severity.WARN, Action.RESET_GPU, needs=("mig",))
def mig_pending(machine: Machine, target: Target) -> Machine:
    """MIG mode will be on after the next reset: the change waits."""
    return edit_gpu(machine, target, mig_mode_pending=True)


@fault("vbios-mismatch", "gpu-firmware", Severity.WARN)
def vbios_mismatch(machine: Machine, target: Target) -> Machine:
    """One GPU has another VBIOS than the others."""
    return edit_gpu(machine, target, vbios_version="96.00.61.00.02")


@fault("inforom-corrupt", "gpu-inforom", Severity.WARN, Action.DRAIN, stage="sweep")
def inforom_corrupt(machine: Machine, target: Target) -> Machine:
    """The GPU's infoROM fails its checksum."""
    return edit_gpu(machine, target, inforom_valid=False)


@fault("leftover-memory", "gpu-leftovers", action=Action.RESET_GPU, owned=True)
def leftover_memory(machine: Machine, target: Target) -> Machine:
    """Six GiB of the job's GPU are in use, and no process owns them."""
    return edit_gpu(machine, target, memory_used_bytes=6 << 30)


@fault("leftover-process", "gpu-leftovers", action=Action.DRAIN, owned=True)
def leftover_process(machine: Machine, target: Target) -> Machine:
    """An earlier job's process still holds 20 GiB of the GPU that this job was given."""
    process = SimulatedProcess(pid=LEFTOVER_PID, name="/usr/bin/python3", memory_bytes=20 << 30)
    held = edit_gpu(machine, target, processes=(process,), memory_used_bytes=20 << 30)
    return replace(held, tasks=(*held.tasks, Task(LEFTOVER_PID, "python3", uid=5001)))


@must_pass("foreign-process", owned=False)
def foreign_process(machine: Machine, target: Target) -> Machine:
    """Another job computes on a GPU that this job was not given."""
    return leftover_process(machine, target)


@must_pass("old-driver-everywhere")
def old_driver_everywhere(machine: Machine, target: Target) -> Machine:
    """A driver before 570 that lacks the newest calls: not supported is no failure."""
    nvml = replace(nvml_of(machine), driver_version="550.144.03", nvml_version="12.550.144.03")
    return edit_gpus(replace(machine, nvml=nvml), recovery_action=None,
                      repair_channel_pending=None, repair_tpc_pending=None,
                      margin_temperature_c=None, fabric_health_summary=None)  # fmt: skip
