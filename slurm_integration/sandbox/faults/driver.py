"""The driver as a whole: it hangs, is slow, does not start, does not match."""

from msgspec.structs import replace

from healthcheck.model import Action
from slurm_integration.sandbox.faults.edit import call_fault, nvml_of
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass
from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.nvml.model import SimulatedFault
from slurm_integration.sandbox.nvml.mutate import behaving, returning

_NONE_USABLE = ("gpu-count",)


@fault("nvml-hang", "driver-responsive", action=Action.REBOOT, told="nvmlDeviceGetTemperature",
       silent=True)  # fmt: skip
def nvml_hang(machine: Machine, target: Target) -> Machine:
    """One call about one GPU never comes back, deaf to all signals but SIGKILL."""
    return call_fault(machine, behaving("nvmlDeviceGetTemperature", "hang-deaf", target.gpu))


@fault("nvml-init-hang", "driver-responsive", action=Action.REBOOT, told="nvmlInit", silent=True)
def nvml_init_hang(machine: Machine, target: Target) -> Machine:
    """NVML's start never comes back."""
    return call_fault(machine, behaving("nvmlInit*", "hang-deaf"))


@must_pass("nvml-slow")
def nvml_slow(machine: Machine, target: Target) -> Machine:
    """The first handle of each GPU takes an eighth of a second: slow, and sound."""
    slow = SimulatedFault(
        symbol="nvmlDeviceGetHandleByIndex", effect="continue", delay_ms=125, times=8
    )
    return call_fault(machine, slow)


@fault("nvml-crash", "driver-responsive", told="nvmlDeviceGetEccMode", blind=True, silent=True)
def nvml_crash(machine: Machine, target: Target) -> Machine:
    """The library kills the process that asks it for a GPU's state."""
    return call_fault(machine, behaving("nvmlDeviceGetEccMode", "abort", target.gpu))


@fault("nvml-init-fails", "gpu-visibility", action=Action.REBOOT, also=_NONE_USABLE, silent=True)
def nvml_init_fails(machine: Machine, target: Target) -> Machine:
    """NVML does not start: the driver is not loaded (error 9)."""
    return call_fault(machine, returning("nvmlInit*", 9))


@fault("driver-mismatch", "gpu-visibility", action=Action.REBOOT, told="different versions",
       also=_NONE_USABLE, silent=True)  # fmt: skip
def driver_mismatch(machine: Machine, target: Target) -> Machine:
    """Driver and library are of different versions (error 18): updated without a reboot."""
    nvml = replace(nvml_of(machine), nvml_version="12.575.51.03")
    return call_fault(replace(machine, nvml=nvml), returning("nvmlInit*", 18))


@fault("module-nvidia-missing", "kernel-modules", action=Action.DRAIN,
       also=(*_NONE_USABLE, "gpu-visibility"), silent=True)  # fmt: skip
def module_nvidia_missing(machine: Machine, target: Target) -> Machine:
    """The kernel has no nvidia module: the GPUs are on the bus and nothing drives them."""
    left = tuple(name for name in machine.modules if not name.startswith("nvidia"))
    return call_fault(replace(machine, modules=left), returning("nvmlInit*", 9))
