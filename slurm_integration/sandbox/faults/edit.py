"""Small pure edits of a machine that faults are made of."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from slurm_integration.sandbox.faults.registry import Target
from slurm_integration.sandbox.machine.boot_log import boot_lines
from slurm_integration.sandbox.machine.describe import REBOOTED_UPTIME_S
from slurm_integration.sandbox.machine.description import LogLine, Machine, PciFunction
from slurm_integration.sandbox.machine.types import NODE_TYPES
from slurm_integration.sandbox.nvml.model import SimulatedFault, SimulatedGpu, SimulatedNvml
from slurm_integration.sandbox.nvml.mutate import with_fault, with_gpu, with_link

Change = Callable[[Machine, Target], Machine]


def nvml_of(machine: Machine) -> SimulatedNvml:
    """The machine's NVML; only faults that need a GPU ask."""
    assert machine.nvml is not None
    return machine.nvml


def gpu_of(machine: Machine, target: Target) -> SimulatedGpu:
    """The GPU a fault hits."""
    return nvml_of(machine).gpus[target.gpu]


def edit_gpu(machine: Machine, target: Target, **changes: Any) -> Machine:
    """One GPU with other NVML answers."""
    return replace(machine, nvml=with_gpu(nvml_of(machine), target.gpu, **changes))


def edit_gpus(machine: Machine, **changes: Any) -> Machine:
    """All GPUs with other NVML answers."""
    nvml = nvml_of(machine)
    for index in range(len(nvml.gpus)):
        nvml = with_gpu(nvml, index, **changes)
    return replace(machine, nvml=nvml)


def edit_link(machine: Machine, target: Target, link: int, **changes: Any) -> Machine:
    """One NVLink of one GPU with other answers."""
    return replace(machine, nvml=with_link(nvml_of(machine), target.gpu, link, **changes))


def call_fault(machine: Machine, *faults: SimulatedFault) -> Machine:
    """NVML calls that misbehave."""
    return replace(machine, nvml=with_fault(nvml_of(machine), *faults))


def edit_pci(machine: Machine, bus_id: str, **changes: Any) -> Machine:
    """One PCI function changed."""
    return replace(
        machine,
        pci=tuple(replace(f, **changes) if f.bus_id == bus_id else f for f in machine.pci),
    )


def without_pci(machine: Machine, bus_id: str) -> Machine:
    """One PCI function gone from the bus."""
    return replace(machine, pci=tuple(f for f in machine.pci if f.bus_id != bus_id))


def function_of(machine: Machine, bus_id: str) -> PciFunction:
    """The PCI function at an address."""
    return next(f for f in machine.pci if f.bus_id == bus_id)


def root_port_of(machine: Machine, bus_id: str) -> PciFunction:
    """The root port above a function."""
    function = function_of(machine, bus_id)
    while function.parent is not None:
        function = function_of(machine, function.parent)
    return function


def edit_hca(machine: Machine, target: Target, **changes: Any) -> Machine:
    """One adapter changed."""
    name = machine.hcas[target.hca].name
    return replace(
        machine,
        hcas=tuple(replace(h, **changes) if h.name == name else h for h in machine.hcas),
    )


def edit_port(machine: Machine, target: Target, **changes: Any) -> Machine:
    """The first port of one adapter changed."""
    first, *others = machine.hcas[target.hca].ports
    return edit_hca(machine, target, ports=(replace(first, **changes), *others))


def count_port(machine: Machine, target: Target, **counts: int) -> Machine:
    """The first port of one adapter with these error counters at these values."""
    port = machine.hcas[target.hca].ports[0]
    hardware = {name: n for name, n in counts.items() if name in HW}
    plain = {name: n for name, n in counts.items() if name not in HW}
    return edit_port(
        machine,
        target,
        counters={**port.counters, **plain},
        hw_counters={**port.hw_counters, **hardware},
    )


HW = frozenset({"local_ack_timeout_err", "packet_seq_err", "out_of_sequence", "rnr_nak_retry_err"})


def log(machine: Machine, *texts: str, priority: int = 3, ago_s: float = 0.0) -> Machine:
    """Lines at the end of the kernel log, now or a while ago."""
    at = machine.uptime_s - ago_s
    lines = tuple(LogLine(at + n / 1e4, text, priority) for n, text in enumerate(texts))
    return replace(machine, log=(*machine.log, *lines))


def xid_line(
    machine: Machine, target: Target, code: int, text: str, process: tuple[int, str] | None = None
) -> str:
    """A line as the NVIDIA driver prints it, with the pid and name of a process where given."""
    address = gpu_of(machine, target).bus_id.rpartition(".")[0]
    pid, name = process or ("'<unknown>'", "<unknown>")
    return f"NVRM: Xid (PCI:{address}): {code}, pid={pid}, name={name}, {text}"


def rebooted(machine: Machine) -> Machine:
    """The same machine after a reboot: a new boot id, a fresh kernel log."""
    return replace(
        machine,
        boots=machine.boots + 1,
        uptime_s=REBOOTED_UPTIME_S,
        log=boot_lines(NODE_TYPES[machine.type], machine.pci),
    )
