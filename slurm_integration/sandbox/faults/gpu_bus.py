"""GPUs that are not there, or do not answer."""

from msgspec.structs import replace

from healthcheck.model import Action
from slurm_integration.sandbox.faults.edit import (
    call_fault,
    edit_pci,
    gpu_of,
    nvml_of,
    without_pci,
)
from slurm_integration.sandbox.faults.registry import Target, fault
from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.nvml.mutate import lost, returning, without_gpu

_SHORT = ("gpu-count",)
"""A GPU that cannot be used is also one too few."""
_HANDLES = "nvmlDeviceGetHandleBy*"


@fault("gpu-lost", "gpu-visibility", action=Action.REBOOT, also=_SHORT)
def gpu_lost(machine: Machine, target: Target) -> Machine:
    """NVML counts the GPU and answers "GPU is lost" to every call about it."""
    return call_fault(machine, lost(target.gpu))


@fault("gpu-missing", "gpu-count", action=Action.REBOOT)
def gpu_missing(machine: Machine, target: Target) -> Machine:
    """The GPU is neither on the PCI bus nor in NVML: the node came up without it."""
    gone = gpu_of(machine, target).bus_id
    return replace(without_pci(machine, gone), nvml=without_gpu(nvml_of(machine), target.gpu))


@fault("gpu-hidden", "gpu-visibility", action=Action.REBOOT, also=_SHORT)
def gpu_hidden(machine: Machine, target: Target) -> Machine:
    """The GPU is on the PCI bus, and the driver does not list it."""
    return replace(machine, nvml=without_gpu(nvml_of(machine), target.gpu))


@fault("gpu-config-ff", "gpu-visibility", action=Action.REBOOT)
def gpu_config_ff(machine: Machine, target: Target) -> Machine:
    """The GPU's PCI configuration space reads all ones: it has left the bus."""
    return edit_pci(machine, gpu_of(machine, target).bus_id, dead=True)


@fault("all-gpus-gone", "gpu-count", action=Action.REBOOT, also=("gpu-presence",))
def all_gpus_gone(machine: Machine, target: Target) -> Machine:
    """The driver runs and lists no GPU, and none is on the PCI bus."""
    for function in machine.gpu_functions():
        machine = without_pci(machine, function.bus_id)
    return replace(machine, nvml=replace(nvml_of(machine), gpus=(), p2p=(), faults=()))


@fault("gpu-insufficient-power", "gpu-power-limit", action=Action.DRAIN, also=_SHORT)
def gpu_insufficient_power(machine: Machine, target: Target) -> Machine:
    """No handle for the GPU: its external power cables are not connected (NVML error 8)."""
    return call_fault(machine, returning(_HANDLES, 8, target.gpu))


@fault("gpu-irq-issue", "gpu-visibility", action=Action.REBOOT, also=_SHORT)
def gpu_irq_issue(machine: Machine, target: Target) -> Machine:
    """No handle for the GPU: the kernel found an interrupt issue with it (NVML error 11)."""
    return call_fault(machine, returning(_HANDLES, 11, target.gpu))


@fault("gpu-reset-required", "gpu-visibility", action=Action.RESET_GPU, also=_SHORT)
def gpu_reset_required(machine: Machine, target: Target) -> Machine:
    """No handle for the GPU: it must be reset before it can be used (NVML error 16)."""
    return call_fault(machine, returning(_HANDLES, 16, target.gpu))


@fault("gpu-unknown-error", "gpu-visibility", action=Action.REBOOT, also=_SHORT)
def gpu_unknown_error(machine: Machine, target: Target) -> Machine:
    """No handle for the GPU: "Unable to determine the device handle: Unknown Error" (999)."""
    return call_fault(machine, returning(_HANDLES, 999, target.gpu))


@fault("gpu-driver-unbound", "gpu-visibility", action=Action.REBOOT, also=_SHORT)
def gpu_driver_unbound(machine: Machine, target: Target) -> Machine:
    """The GPU is on the bus without a driver, and NVML does not list it."""
    bus_id = gpu_of(machine, target).bus_id
    return replace(
        edit_pci(machine, bus_id, driver=None), nvml=without_gpu(nvml_of(machine), target.gpu)
    )


def fell_off(machine: Machine, target: Target) -> Machine:
    """What a GPU that fell off the bus looks like, but for its Xid."""
    bus_id = gpu_of(machine, target).bus_id
    dead = edit_pci(machine, bus_id, dead=True)
    return call_fault(dead, lost(target.gpu))
