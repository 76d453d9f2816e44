"""What the NVIDIA driver leaves in the file system: NVML's state, /proc/driver, /dev."""

from collections.abc import Iterator

from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.machine.tree import Link
from slurm_integration.sandbox.nvml.state import STATE_NAME, render_state

LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"


def files(machine: Machine) -> Iterator[tuple[str, bytes | Link]]:
    """The driver's traces; the library itself is installed once, beside its state."""
    nvml = machine.nvml
    if nvml is None:
        return
    yield f"{LIBRARY_FOLDER}/{STATE_NAME}", render_state(nvml).encode()
    if "nvidia" not in machine.modules:
        return
    yield (
        "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {nvml.driver_version}  "
        "Release Build\nGCC version:  gcc version 13.2.0\n".encode(),
    )
    yield "sys/module/nvidia/version", f"{nvml.driver_version}\n".encode()
    for minor, function in enumerate(machine.gpu_functions()):
        yield (
            f"proc/driver/nvidia/gpus/{function.bus_id}/information",
            (f"Bus Location: \t {function.bus_id}\nDevice Minor: \t {minor}\n".encode()),
        )
        yield f"dev/nvidia{minor}", b""
    for name in ("nvidiactl", "nvidia-uvm"):
        yield f"dev/{name}", b""
