"""Facts about the buses and networks of a node: PCI, InfiniBand and RoCE."""

from collections.abc import Iterable

import msgspec


class Aer(msgspec.Struct, frozen=True):
    """PCIe Advanced Error Reporting counters of one device, by error name, since it was found.

    Kinds that never happened may be left out.
    """

    correctable: dict[str, int]
    nonfatal: dict[str, int]
    fatal: dict[str, int]


class PciDevice(msgspec.Struct, frozen=True):
    """One PCI function: a GPU, NIC or NVSwitch, or a bridge on the way up to the root port.

    `kind` is gpu, nvswitch, nic or bridge. `parent` is the bus id one step up (None at the root).
    Ids are sysfs words (`0x10de`). Speeds in GT/s. `config_dead`: the first four bytes of the
    configuration space read all ones, that is, nothing answers on the bus any more. `rdma`: the
    kernel offers an InfiniBand or RoCE device on this NIC (None where nobody looked).
    """

    bus_id: str
    kind: str
    vendor: str
    device: str
    subsystem: str | None = None
    driver: str | None = None
    parent: str | None = None
    virtual: bool = False
    numa_node: int | None = None
    config_dead: bool | None = None
    link_speed_gt_s: float | None = None
    link_speed_max_gt_s: float | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    aer: Aer | None = None
    rdma: bool | None = None


def upstream(devices: Iterable[PciDevice], bus_id: str) -> tuple[PciDevice, ...]:
    """The bridges above a device, nearest first, up to the root port."""
    known = {device.bus_id: device for device in devices}
    found: list[PciDevice] = []
    here = known.get(bus_id)
    while here is not None and here.parent is not None and len(found) < len(known):
        here = known.get(here.parent)
        if here is not None:
            found.append(here)
    return tuple(found)


class Port(msgspec.Struct, frozen=True):
    """One port of a host channel adapter. `subject` is `mlx5_0/1`.

    `state` and `phys_state` are the kernel's words without their number (`ACTIVE`, `LinkUp`).
    Counters that could not be read are absent, and named in `unreadable`.
    """

    number: int
    state: str | None = None
    phys_state: str | None = None
    rate_gb_s: float | None = None
    link_layer: str | None = None
    netdev: str | None = None
    counters: dict[str, int] = {}
    hw_counters: dict[str, int] = {}
    unreadable: tuple[str, ...] = ()


class Hca(msgspec.Struct, frozen=True):
    """One InfiniBand or RoCE device (`/sys/class/infiniband/NAME`)."""

    name: str
    ports: tuple[Port, ...]
    bus_id: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    hca_type: str | None = None
    node_guid: str | None = None
    virtual: bool = False
