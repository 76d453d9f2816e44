"""What a simulated machine consists of: frozen structs that faults change and files are made of."""

from typing import Any

import msgspec

from slurm_integration.sandbox.nvml.model import SimulatedNvml


class PciFunction(msgspec.Struct, frozen=True, kw_only=True):
    """One PCI function with its PCIe link towards `parent` (None: a root port).

    `role` is root, switch, gpu, nvswitch, nic or other. Ids have 16 bits, `pci_class` has 24.
    `dead`: nothing answers on the bus, every byte of the configuration space reads ff. The AER
    dictionaries hold the counters that are not zero, by the kernel's short names.
    """

    bus_id: str
    parent: str | None
    role: str
    pci_class: int
    vendor: int
    device: int
    subsystem_vendor: int
    subsystem_device: int
    driver: str | None
    numa_node: int
    speed_gt_s: float
    speed_max_gt_s: float
    width: int = 16
    width_max: int = 16
    dead: bool = False
    aer_correctable: dict[str, int] = {}
    aer_nonfatal: dict[str, int] = {}
    aer_fatal: dict[str, int] = {}


class HcaPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port of an InfiniBand or RoCE adapter; the words are the kernel's own."""

    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    rate: str = "400 Gb/sec (4X NDR)"
    link_layer: str = "InfiniBand"
    lid: int = 0
    counters: dict[str, int] = {}
    """Those that are not zero, of `counters/`."""
    hw_counters: dict[str, int] = {}


class Hca(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter `mlx5_N` on its PCI function."""

    name: str
    bus_id: str
    hca_type: str
    board_id: str
    firmware: str
    node_guid: str
    ports: tuple[HcaPort, ...]


class LogLine(msgspec.Struct, frozen=True):
    """A line of the kernel log: seconds since boot, text, syslog priority, structured fields."""

    uptime_s: float
    text: str
    priority: int = 6
    fields: tuple[str, ...] = ()


class MemoryBank(msgspec.Struct, frozen=True):
    """An EDAC memory controller and its error counts."""

    name: str
    corrected: int = 0
    uncorrected: int = 0


class Supply(msgspec.Struct, frozen=True):
    """A power supply as the management controller reports it (`ipmitool sdr type 0x08`)."""

    name: str
    number: int
    status: str = "ok"
    text: str = "Presence detected"


class Mount(msgspec.Struct, frozen=True):
    """A mounted file system; `space` is what statvfs answers, or how it fails (hang, stale)."""

    path: str
    device: str
    kind: str
    options: str
    size_bytes: int
    free_bytes: int
    inodes: int = 100_000_000
    inodes_free: int = 95_000_000
    answer: str | None = None


class Task(msgspec.Struct, frozen=True):
    """A process of the simulated machine; `service` is the unit whose cgroup holds it."""

    pid: int
    name: str
    state: str = "S"
    service: str | None = None
    uid: int = 0


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A whole machine at one moment.

    `boots` counts its boots and gives each an id of its own. `modules` are kernel modules,
    `hwmon_alarms` the alarm files of the power sensor chip that read 1.
    """

    type: str
    node: str
    boots: int
    uptime_s: float
    nvml: SimulatedNvml | None
    pci: tuple[PciFunction, ...]
    hcas: tuple[Hca, ...]
    log: tuple[LogLine, ...]
    memory_kib: int
    memory_available_kib: int
    banks: tuple[MemoryBank, ...]
    supplies: tuple[Supply, ...]
    hwmon_alarms: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    tasks: tuple[Task, ...] = ()
    clock: dict[str, Any] = {}
    cpus: int = 112

    def gpu_functions(self) -> tuple[PciFunction, ...]:
        """The GPUs on the PCI bus, by address."""
        return tuple(f for f in self.pci if f.role == "gpu")
