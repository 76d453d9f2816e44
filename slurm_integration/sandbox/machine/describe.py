"""Node type and name → a healthy machine."""

import uuid

from msgspec.structs import replace

from slurm_integration.sandbox.machine.boot_log import boot_lines
from slurm_integration.sandbox.machine.description import (
    Hca,
    HcaPort,
    Machine,
    MemoryBank,
    Mount,
    Supply,
    Task,
)
from slurm_integration.sandbox.machine.gpus import simulated_nvml
from slurm_integration.sandbox.machine.pci_parts import function_in, onboard
from slurm_integration.sandbox.machine.topology import Slot
from slurm_integration.sandbox.machine.types import NodeType

FIRST_UPTIME_S = 259_200.0
"""Three days: a node in service. After a repair a machine has been up for REBOOTED_UPTIME_S."""
REBOOTED_UPTIME_S = 900.0
GIB = 1 << 30
_USABLE = 0.987
"""What the kernel leaves of the installed memory after its own page descriptors."""
SERVICES_OF_GPUS = ("nvidia-persistenced",)
BASE_SERVICES = ("slurmd", "munge", "chrony", "ssh")


def describe(
    kind: NodeType, node: str, boots: int = 0, uptime_s: float = FIRST_UPTIME_S
) -> Machine:
    """The healthy machine of this type under this name. Pure: same arguments, same machine."""
    pci = (*onboard(), *(function_in(kind, slot) for slot in kind.slots))
    services = services_of(kind)
    return Machine(
        type=kind.name,
        node=node,
        boots=boots,
        uptime_s=uptime_s,
        nvml=simulated_nvml(kind, node) if kind.gpu else None,
        pci=pci,
        hcas=tuple(_hca(kind, slot, node) for slot in kind.slots if slot.role == "nic"),
        log=boot_lines(kind, pci),
        memory_kib=int(kind.memory_gib * (GIB >> 10) * _USABLE),
        memory_available_kib=int(kind.memory_gib * (GIB >> 10) * 0.97),
        banks=tuple(MemoryBank(f"mc{number}") for number in range(8)),
        supplies=tuple(
            Supply(f"PS{number}_Status", 0xC8 + number) for number in range(6 if kind.gpu else 2)
        ),
        modules=modules_of(kind),
        mounts=_mounts(),
        tasks=_tasks(services),
        clock={
            "synchronised": True,
            "estimated_error_s": 0.000021,
            "maximum_error_s": 0.031,
            "offset_s": 0.000004,
        },
        cpus=kind.cpus,
    )


def services_of(kind: NodeType) -> tuple[str, ...]:
    """The units that run on such a node."""
    found: tuple[str, ...] = BASE_SERVICES
    if kind.gpu is not None:
        found += SERVICES_OF_GPUS
        if kind.imex:
            found += ("nvidia-imex",)
        elif kind.gpu.links_to == "switch":
            found += ("nvidia-fabricmanager",)
    return found


def modules_of(kind: NodeType) -> tuple[str, ...]:
    """The kernel modules that are loaded on such a node."""
    found: tuple[str, ...] = ("ext4", "xfs", "nfsv4", "ipmi_si", "ipmi_devintf", "i10nm_edac")
    if kind.gpu is not None:
        found += ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm")
    if kind.nic is not None:
        found += ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm")
    if kind.gpu is not None and kind.nic is not None:
        found += ("nvidia_peermem",)
    return found


def _hca(kind: NodeType, slot: Slot, node: str) -> Hca:
    nic = kind.nic
    assert nic is not None
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}/{slot.name}").hex
    guid = ":".join(("a088", "c203", f"00{identity[:2]}", identity[2:6]))
    port = HcaPort(rate=nic.rate, link_layer=nic.link_layer, lid=int(identity[6:9], 16) + 1)
    return Hca(
        name=slot.name,
        bus_id=slot.bus_id,
        hca_type=nic.hca_type,
        board_id=nic.board_id,
        firmware=nic.firmware,
        node_guid=guid,
        ports=(port,),
    )


def _mounts() -> tuple[Mount, ...]:
    root = Mount("/", "/dev/md0", "ext4", "rw,relatime", 1_788 * GIB, 1_466 * GIB)
    return (
        root,
        replace(root, path="/tmp"),  # noqa: S108
        Mount("/dev/shm", "tmpfs", "tmpfs", "rw,nosuid", 1000 * GIB, 999 * GIB),  # noqa: S108
        Mount("/scratch", "/dev/md1", "xfs", "rw,noatime", 27_942 * GIB, 21_000 * GIB),
        Mount("/home", "nas01:/home", "nfs4", "rw,hard,vers=4.2", 90_000 * GIB, 41_000 * GIB),
    )


def _tasks(services: tuple[str, ...]) -> tuple[Task, ...]:
    own = tuple(
        Task(900 + 37 * number, name.removesuffix("d") + "d", service=name)
        for number, name in enumerate(services)
    )
    return (Task(1, "systemd"), Task(2, "kthreadd"), Task(87, "kworker/0:1", state="I"), *own)
