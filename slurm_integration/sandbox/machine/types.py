"""The node types that can be simulated, as data.

Figures are those that the vendors' data sheets and nvidia-smi on such nodes give; a profile that
disagrees with them shows up in the test that every healthy machine is judged `go`.
"""

import msgspec
from msgspec.structs import replace

from slurm_integration.sandbox.machine import topology
from slurm_integration.sandbox.machine.topology import Slot

MIB = 1 << 20


class GpuModel(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU product. Clocks in MHz, power in W, link speed in MB/s, temperatures in °C.

    `fabric`: it registers with an NVSwitch fabric (Hopper and later). `links_to` is switch, gpu
    or none. `idle_c` is its temperature at rest.
    """

    name: str
    device: int
    subsystem: int
    architecture: int
    capability: tuple[int, int]
    memory_mib: int
    power_w: int
    sm_mhz: int
    memory_mhz: int
    pcie_generation: int
    vbios: str
    inforom: str
    links: int = 0
    link_mb_s: int = 0
    link_version: int = 0
    links_to: str = "none"
    fabric: bool = False
    idle_c: int = 32
    slowdown_c: int = 89
    shutdown_c: int = 92
    memory_max_c: int | None = 95
    mig: bool = True


class NicModel(msgspec.Struct, frozen=True, kw_only=True):
    """A host channel adapter: PCI device, identity, firmware, port rate, link layer."""

    device: int
    hca_type: str
    board_id: str
    firmware: str
    rate: str
    pcie_generation: int
    link_layer: str = "InfiniBand"


class NodeType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of node. `imex`: GPUs form a domain with other nodes (GB200)."""

    name: str
    title: str
    gpu: GpuModel | None = None
    nic: NicModel | None = None
    slots: tuple[Slot, ...] = ()
    memory_gib: int
    cpus: int
    imex: bool = False

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return sum(slot.role == "gpu" for slot in self.slots)

    @property
    def traits(self) -> frozenset[str]:
        """What a fault may need: always, gpu, mig, ib, nvlink, nvlink4 (or older), nvlink5,
        nvswitch, fabric, manager (nvidia-fabricmanager runs here).
        """
        found = {"always"}
        if self.gpu is not None:
            found |= {"gpu"}
            found |= {"mig"} if self.gpu.mig else set()
            found |= {"nvlink"} if self.gpu.links else set()
            found |= {"fabric"} if self.gpu.fabric else set()
            found |= {"nvswitch"} if self.gpu.links_to == "switch" else set()
            found |= {"nvlink5"} if self.gpu.link_version >= 7 else {"nvlink4"}
            found |= {"manager"} if self.gpu.links_to == "switch" and not self.imex else set()
        if self.nic is not None:
            found |= {"ib"}
        return frozenset(found)


A100_SXM_40 = GpuModel(
    name="NVIDIA A100-SXM4-40GB", device=0x20B0, subsystem=0x144E, architecture=7,
    capability=(8, 0), memory_mib=40_960, power_w=400, sm_mhz=1410, memory_mhz=1215,
    pcie_generation=4, vbios="92.00.45.00.03", inforom="G506.0200.00.04", links=12,
    link_mb_s=25781, link_version=5, links_to="switch",
)  # fmt: skip
A100_SXM_80 = replace(
    A100_SXM_40, name="NVIDIA A100-SXM4-80GB", device=0x20B2, subsystem=0x1463, memory_mib=81_920,
    memory_mhz=1593, vbios="92.00.9E.00.05",
)  # fmt: skip
A100_PCIE_80 = replace(
    A100_SXM_80, name="NVIDIA A100 80GB PCIe", device=0x20B5, subsystem=0x1533, memory_mhz=1512,
    power_w=300, vbios="92.00.A0.00.05", links=0, link_mb_s=0, link_version=0, links_to="none",
)  # fmt: skip
H100_SXM = GpuModel(
    name="NVIDIA H100 80GB HBM3", device=0x2330, subsystem=0x16C1, architecture=9,
    capability=(9, 0), memory_mib=81_559, power_w=700, sm_mhz=1980, memory_mhz=2619,
    pcie_generation=5, vbios="96.00.89.00.01", inforom="G520.0200.00.05", links=18,
    link_mb_s=26562, link_version=6, links_to="switch", fabric=True,
)  # fmt: skip
H100_NVL = replace(
    H100_SXM, name="NVIDIA H100 NVL", device=0x2321, subsystem=0x1839, memory_mib=95_830,
    power_w=400, sm_mhz=1785, vbios="96.00.9F.00.04", inforom="1010.0210.00.02", links=12,
    links_to="gpu", fabric=False,
)  # fmt: skip
H200_SXM = replace(
    H100_SXM, name="NVIDIA H200", device=0x2335, subsystem=0x18BE, memory_mib=143_771,
    memory_mhz=3201, vbios="96.00.BC.00.01", inforom="G520.0280.00.05",
)  # fmt: skip
B200 = replace(
    H100_SXM, name="NVIDIA B200", device=0x2901, subsystem=0x1999, architecture=10,
    capability=(10, 0), memory_mib=183_359, power_w=1000, sm_mhz=1965, memory_mhz=3996,
    vbios="97.00.88.00.0F", inforom="G525.0225.00.05", link_mb_s=53125, link_version=7,
)  # fmt: skip
GB200 = replace(
    B200, name="NVIDIA GB200", device=0x2941, subsystem=0x2046, memory_mib=189_471, power_w=1200,
    sm_mhz=2062, vbios="97.00.95.00.22", inforom="G548.0201.00.06",
)  # fmt: skip
L40S = GpuModel(
    name="NVIDIA L40S", device=0x26B9, subsystem=0x1851, architecture=8, capability=(8, 9),
    memory_mib=46_068, power_w=350, sm_mhz=2520, memory_mhz=9001, pcie_generation=4,
    vbios="95.02.66.00.02", inforom="G133.0242.00.03", memory_max_c=None, mig=False,
)  # fmt: skip

CX6_HDR = NicModel(
    device=0x101B, hca_type="MT4123", board_id="MT_0000000223", firmware="20.39.2048",
    rate="200 Gb/sec (4X HDR)", pcie_generation=4,
)  # fmt: skip
CX7_NDR = NicModel(
    device=0x1021, hca_type="MT4129", board_id="MT_0000000838", firmware="28.39.2048",
    rate="400 Gb/sec (4X NDR)", pcie_generation=5,
)  # fmt: skip

NODE_TYPES: dict[str, NodeType] = {
    kind.name: kind
    for kind in (
        NodeType(name="a100-sxm-40", title="8 × A100 SXM4 40 GB", gpu=A100_SXM_40, nic=CX6_HDR,
                 slots=topology.HGX_A100, memory_gib=1024, cpus=256),
        NodeType(name="a100-sxm-80", title="8 × A100 SXM4 80 GB", gpu=A100_SXM_80, nic=CX6_HDR,
                 slots=topology.HGX_A100, memory_gib=2048, cpus=256),
        NodeType(name="a100-pcie", title="4 × A100 80 GB PCIe", gpu=A100_PCIE_80,
                 slots=topology.cards(0x27, 0x2A, 0xA3, 0xC7), memory_gib=512, cpus=128),
        NodeType(name="h100-sxm", title="8 × H100 SXM5 80 GB", gpu=H100_SXM, nic=CX7_NDR,
                 slots=topology.HGX_HOPPER, memory_gib=2048, cpus=112),
        NodeType(name="h100-nvl", title="2 × H100 NVL", gpu=H100_NVL,
                 slots=topology.cards(0x17, 0x65), memory_gib=1024, cpus=96),
        NodeType(name="h200-sxm", title="8 × H200 SXM 141 GB", gpu=H200_SXM, nic=CX7_NDR,
                 slots=topology.HGX_HOPPER, memory_gib=2048, cpus=112),
        NodeType(name="b200-sxm", title="8 × B200 SXM 180 GB", gpu=B200, nic=CX7_NDR,
                 slots=topology.HGX_BLACKWELL, memory_gib=4096, cpus=112),
        NodeType(name="gb200-tray", title="GB200 compute tray, 4 GPUs", gpu=GB200, nic=CX7_NDR,
                 slots=topology.GRACE_TRAY, memory_gib=960, cpus=144, imex=True),
        NodeType(name="l40s-pcie", title="4 × L40S", gpu=L40S,
                 slots=topology.cards(0x16, 0x38, 0x98, 0xB8),
                 memory_gib=1024, cpus=128),
        NodeType(name="cpu-only", title="A node without GPUs", memory_gib=256, cpus=64),
    )
}  # fmt: skip
