"""Whether each GPU that is there also answers."""

from collections.abc import Iterator

from healthcheck.checks._gpus import NODE, listed, nvml_trouble, pci_gpus
from healthcheck.model import (
    Action,
    Finding,
    Gpu,
    NotApplicable,
    NvmlError,
    PciDevice,
    Snapshot,
    Unmeasured,
    fail,
    info,
    warn,
)
from healthcheck.registry import NoLimits, check

_FATAL = {
    11: ("its interrupts do not arrive", Action.REBOOT),
    15: ("the GPU has fallen off the bus or is otherwise unreachable", Action.REBOOT),
    16: ("the GPU must be reset before it can be used again", Action.RESET_GPU),
    18: ("library and kernel driver are of different versions", Action.REBOOT),
    999: ("the driver cannot use the GPU", Action.REBOOT),
}
_ELSEWHERE = frozenset({2, 8, 14})
"""2 tells of a binding and a driver of different age; gpu-power-limit judges 8, gpu-inforom 14."""
_SAYS_NOTHING = frozenset({4, 6, 7, 19, 21, 23, 27})
"""No permission, nothing found, no data yet, in use: about the caller, not about the GPU."""


@check("gpu-visibility", source="nvmlReturn_t of NVIDIA's NVML API reference")
def gpu_visibility(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """Every GPU on the PCI bus answers there and through NVML.

    What it means: a GPU whose configuration space reads all ones is off the bus. One that NVML
    calls lost, or does not list, is gone for CUDA. No job can use it, and collective jobs crash.

    What we do: look at the PCI configuration space, at NVML's list and at the return code of
    every call. Return codes that say "not supported" are never a fault.

    What to do: reset the GPU where NVML asks for it, else power-cycle the node; replace a GPU
    that is lost again.
    """
    on_bus = pci_gpus(node)
    if not node.gpus and node.pci is None:
        raise Unmeasured("neither NVML nor the PCI bus could be read")
    if not node.gpus and not on_bus:
        raise NotApplicable("no NVIDIA GPU on this node")
    dead = [device.bus_id for device in on_bus if device.config_dead]
    for bus_id in dead:
        yield fail(
            bus_id,
            "the GPU is off the PCI bus: its configuration space reads all ones",
            measured="ff ff ff ff",
            expected="a vendor and device id",
            action=Action.REBOOT,
        )
    trouble = nvml_trouble(node.driver)
    if trouble is not None:
        yield fail(
            NODE,
            f"none of {len(on_bus)} GPUs on the PCI bus can be used: {trouble}",
            measured=0,
            expected=len(on_bus),
            action=Action.REBOOT,
        )
        return
    if node.gpus is None:
        if not dead:
            problem = node.problems.get("gpus")
            raise Unmeasured(problem.reason if problem else "NVML was not read")
        return
    yield from _without_handle(node.gpus, on_bus)
    yield from _not_listed(node.gpus, on_bus, dead)
    for gpu in node.gpus:
        if gpu.bus_id not in dead:
            yield from _errors(gpu)


def _without_handle(gpus: tuple[Gpu, ...], on_bus: tuple[PciDevice, ...]) -> Iterator[Finding]:
    bad = [gpu for gpu in gpus if gpu.handle_error is not None]
    known = {gpu.bus_id for gpu in gpus if gpu.bus_id}
    silent = [device.bus_id for device in on_bus if device.bus_id not in known]
    for at, gpu in enumerate(bad):
        error = gpu.handle_error
        if error is None or error.code == 8:
            continue  # insufficient power is told by gpu-power-limit
        # NVML lists GPUs in the order of their addresses, so the silent ones pair up.
        where = silent[at] if len(silent) == len(bad) else ""
        subject = gpu.bus_id or where or f"GPU {gpu.index}"
        meaning, action = _FATAL.get(error.code, ("the driver gives no handle for it", None))
        yield fail(
            subject,
            f"GPU {gpu.index} does not answer: {error.call} gives {error.name} "
            f"({error.code}): {meaning}",
            measured=error.name,
            expected="NVML_SUCCESS",
            action=action or Action.REBOOT,
        )


def _not_listed(
    gpus: tuple[Gpu, ...], on_bus: tuple[PciDevice, ...], dead: list[str]
) -> Iterator[Finding]:
    """GPUs on the bus that NVML does not count at all."""
    if any(gpu.handle_error and not gpu.bus_id for gpu in gpus):
        listed_ids = {gpu.bus_id for gpu in gpus}
        unnamed = sum(1 for gpu in gpus if not gpu.bus_id)
        silent = [d for d in on_bus if d.bus_id not in listed_ids]
        if len(silent) <= unnamed:
            return
    else:
        listed_ids = {gpu.bus_id for gpu in gpus}
        silent = [d for d in on_bus if d.bus_id not in listed_ids]
    for device in silent:
        if device.bus_id in dead:
            continue
        if device.driver == "vfio-pci":
            yield info(device.bus_id, "the GPU is handed to a virtual machine (vfio-pci)")
            continue
        bound = f"bound to {device.driver}" if device.driver else "bound to no driver"
        yield fail(
            device.bus_id,
            f"the GPU is on the PCI bus ({bound}), but NVML does not list it",
            measured="absent",
            expected="listed by NVML",
            action=Action.REBOOT,
        )


def _errors(gpu: Gpu) -> Iterator[Finding]:
    """Calls that failed on a GPU that had a handle."""
    told: list[NvmlError] = []
    for error in gpu.errors:
        if error.code in (15, 16, 11):
            meaning, action = _FATAL[error.code]
            yield fail(
                gpu.bus_id,
                f"{error.call} gives {error.name} ({error.code}): {meaning}",
                measured=error.name,
                expected="NVML_SUCCESS",
                action=action,
            )
            return
        if error.code not in _ELSEWHERE and error.code not in _SAYS_NOTHING:
            told.append(error)
    if told:
        names = listed([f"{error.call}: {error.name}" for error in told], 3)
        yield warn(
            gpu.bus_id,
            f"{len(told)} NVML calls fail, so not all of the GPU is known to be sound ({names})",
            measured=told[0].name,
            expected="NVML_SUCCESS",
        )
        return
    silent = [error for error in gpu.errors if error.code in _SAYS_NOTHING]
    if silent:
        names = listed([f"{error.call}: {error.name}" for error in silent], 3)
        yield info(gpu.bus_id, f"not measured: {names}")
