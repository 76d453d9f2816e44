"""Which PCI function stands in which slot."""

from typing import NamedTuple

from slurm_integration.sandbox.machine.description import PciFunction
from slurm_integration.sandbox.machine.topology import Slot
from slurm_integration.sandbox.machine.types import NodeType

SPEED_GT_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Transfer rate of a lane by PCIe generation."""
_INTEL, _NVIDIA, _MELLANOX, _BROADCOM = 0x8086, 0x10DE, 0x15B3, 0x1000
_BRIDGE, _DISPLAY_3D, _INFINIBAND, _OTHER_BRIDGE = 0x060400, 0x030200, 0x020700, 0x068000


class _Part(NamedTuple):
    """A product: its ids, driver, PCIe generation and lanes."""

    pci_class: int
    vendor: int
    device: int
    subsystem: int
    driver: str
    generation: int
    lanes: int = 16


def function_in(kind: NodeType, slot: Slot) -> PciFunction:
    """The function in a slot of a node of this type."""
    return _function(slot.bus_id, slot.parent, slot.role, _part(kind, slot))


def _part(kind: NodeType, slot: Slot) -> _Part:
    gpu, nic = kind.gpu, kind.nic
    fastest = gpu.pcie_generation if gpu else 5
    if slot.role == "gpu" and gpu is not None:
        return _Part(_DISPLAY_3D, _NVIDIA, gpu.device, gpu.subsystem, "nvidia", gpu.pcie_generation)
    if slot.role == "nic" and nic is not None:
        return _Part(_INFINIBAND, _MELLANOX, nic.device, 0x0041, "mlx5_core", nic.pcie_generation)
    if slot.role == "nvswitch":
        device, generation = (0x22A3, 4) if gpu and gpu.fabric else (0x1AF1, 3)
        return _Part(_OTHER_BRIDGE, _NVIDIA, device, 0x1796, "nvidia-nvswitch", generation, 2)
    if slot.role == "switch":
        device = 0xC030 if fastest >= 5 else 0xC010
        return _Part(_BRIDGE, _BROADCOM, device, 0x0100, "pcieport", fastest)
    return _Part(_BRIDGE, _INTEL, 0x352A, 0x0000, "pcieport", fastest)


def _numa_node(bus_id: str) -> int:
    """Two sockets: the upper half of the buses, or of Grace's PCI domains, is the second's."""
    domain, bus = int(bus_id[:4], 16), int(bus_id[5:7], 16)
    return int(domain >= 0x10 or (domain == 0 and bus >= 0x80))


def onboard() -> tuple[PciFunction, ...]:
    """What every server has besides: a management graphics chip, Ethernet, a boot disk."""
    rows = (
        ("0000:f1:00.0", "0000:f0:01.0", _Part(0x030000, 0x1A03, 0x2000, 0, "ast", 1, 1)),
        ("0000:f2:00.0", "0000:f0:02.0", _Part(0x020000, _INTEL, 0x1563, 0, "ixgbe", 3, 4)),
        ("0000:f3:00.0", "0000:f0:03.0", _Part(0x010802, 0x144D, 0xA80A, 0, "nvme", 4, 4)),
    )
    found: list[PciFunction] = []
    for bus_id, root, part in rows:
        port = _Part(_BRIDGE, _INTEL, 0x1BBF, 0, "pcieport", part.generation, part.lanes)
        found.append(_function(root, None, "root", port))
        found.append(_function(bus_id, root, "other", part))
    return tuple(found)


def _function(bus_id: str, parent: str | None, role: str, part: _Part) -> PciFunction:
    speed = SPEED_GT_S[part.generation]
    return PciFunction(
        bus_id=bus_id,
        parent=parent,
        role=role,
        pci_class=part.pci_class,
        vendor=part.vendor,
        device=part.device,
        subsystem_vendor=part.vendor,
        subsystem_device=part.subsystem,
        driver=part.driver,
        numa_node=_numa_node(bus_id),
        speed_gt_s=speed,
        speed_max_gt_s=speed,
        width=part.lanes,
        width_max=part.lanes,
    )
