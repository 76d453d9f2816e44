"""Where things sit on the PCI bus: root ports, switches, and the devices behind them."""

from collections.abc import Iterable
from typing import NamedTuple


class Slot(NamedTuple):
    """A place on the bus. `role` as in PciFunction; `name` is the HCA's where there is one."""

    bus_id: str
    parent: str | None
    role: str
    name: str = ""


def paired(nic_bus: int, hca: str, domain: int = 0) -> list[Slot]:
    """A NIC and a GPU behind one PCIe switch, the GPU behind a second one on its baseboard.

    The addresses are those of a DGX H100: NIC 18, GPU 1b; NIC 40, GPU 43; and so on.
    """
    root, switch, nic_port = (
        _at(nic_bus - 3, 1, domain),
        _at(nic_bus - 2, 0, domain),
        _at(nic_bus - 1, 0, domain),
    )
    gpu_port, board, board_port = (
        _at(nic_bus - 1, 1, domain),
        _at(nic_bus + 1, 0, domain),
        _at(nic_bus + 2, 0, domain),
    )
    return [
        Slot(root, None, "root"),
        Slot(switch, root, "switch"),
        Slot(nic_port, switch, "switch"),
        Slot(_at(nic_bus, 0, domain), nic_port, "nic", hca),
        Slot(gpu_port, switch, "switch"),
        Slot(board, gpu_port, "switch"),
        Slot(board_port, board, "switch"),
        Slot(_at(nic_bus + 3, 0, domain), board_port, "gpu"),
    ]


def switched(
    root: str, upstream: str, below: Iterable[tuple[int, str, str]], domain: int = 0
) -> list[Slot]:
    """Devices (bus, role, HCA name) each behind a downstream port of one PCIe switch."""
    slots = [Slot(root, None, "root"), Slot(upstream, root, "switch")]
    port_bus = int(upstream[5:7], 16) + 1
    for number, (bus, role, name) in enumerate(below):
        port = _at(port_bus, number, domain)
        slots += [Slot(port, upstream, "switch"), Slot(_at(bus, 0, domain), port, role, name)]
    return slots


def direct(bus: int, role: str, name: str = "", domain: int = 0) -> list[Slot]:
    """A device in a slot of its own, right below a root port."""
    root = _at(bus - 1, 1, domain) if domain == 0 else _at(0, 0, domain)
    return [Slot(root, None, "root"), Slot(_at(bus, 0, domain), root, role, name)]


def _at(bus: int, device: int, domain: int) -> str:
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def _flat(*branches: list[Slot]) -> tuple[Slot, ...]:
    return tuple(slot for branch in branches for slot in branch)


def _hgx(nics: Iterable[tuple[int, str]], *more: list[Slot]) -> tuple[Slot, ...]:
    return _flat(*(paired(bus, hca) for bus, hca in nics), *more)


_DGX_H100_NICS = (
    (0x18, "mlx5_0"), (0x40, "mlx5_3"), (0x4F, "mlx5_4"), (0x5E, "mlx5_5"),
    (0x9A, "mlx5_6"), (0xC0, "mlx5_9"), (0xCE, "mlx5_10"), (0xDC, "mlx5_11"),
)  # fmt: skip
_NVSWITCHES = switched(
    "0000:04:01.0", "0000:05:00.0", [(bus, "nvswitch", "") for bus in (0x07, 0x08, 0x09, 0x0A)]
)

HGX_HOPPER = _hgx(_DGX_H100_NICS, _NVSWITCHES)
"""DGX H100: eight GPU and NIC pairs, four NVSwitches."""

HGX_BLACKWELL = _hgx([(bus, f"mlx5_{n}") for n, (bus, _) in enumerate(_DGX_H100_NICS)])
"""HGX B200: the NVSwitches no longer show as PCI functions of their own."""

HGX_A100 = _flat(
    switched("0000:00:01.1", "0000:01:00.0", [
        (0x07, "gpu", ""), (0x0F, "gpu", ""), (0x0C, "nic", "mlx5_0"), (0x12, "nic", "mlx5_1"),
    ]),
    switched("0000:40:01.1", "0000:41:00.0", [
        (0x47, "gpu", ""), (0x4E, "gpu", ""), (0x4B, "nic", "mlx5_2"), (0x54, "nic", "mlx5_3"),
    ]),
    switched("0000:80:01.1", "0000:81:00.0", [
        (0x87, "gpu", ""), (0x90, "gpu", ""), (0x8D, "nic", "mlx5_6"), (0x94, "nic", "mlx5_7"),
    ]),
    switched("0000:b0:01.1", "0000:b1:00.0", [
        (0xB7, "gpu", ""), (0xBD, "gpu", ""), (0xBA, "nic", "mlx5_8"), (0xCC, "nic", "mlx5_9"),
    ]),
    switched("0000:c0:01.1", "0000:c1:00.0", [
        (bus, "nvswitch", "") for bus in (0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9)
    ]),
)  # fmt: skip
"""DGX A100: two GPUs and two NICs a switch, six NVSwitches."""

GRACE_TRAY = _flat(
    *(direct(1, "gpu", domain=domain) for domain in (0x08, 0x09, 0x18, 0x19)),
    *(direct(3, "nic", f"mlx5_{n}", domain) for n, domain in enumerate((0x00, 0x02, 0x10, 0x12))),
)
"""GB200 compute tray: every device in a PCI domain of its own."""


def cards(*buses: int) -> tuple[Slot, ...]:
    """GPUs in PCIe slots."""
    return _flat(*(direct(bus, "gpu") for bus in buses))
