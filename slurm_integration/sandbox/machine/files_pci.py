"""/sys/bus/pci: functions, bridges, links and error counters as the kernel shows them."""

import struct
from collections.abc import Iterator

from slurm_integration.sandbox.machine.description import Machine, PciFunction
from slurm_integration.sandbox.machine.tree import Link

CORRECTABLE = (
    "RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF",
)  # fmt: skip
UNCORRECTABLE = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF",
    "MalfTLP", "ECRC", "UnsupReq", "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked",
    "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip
CONFIG_BYTES = 256


def folders_of(machine: Machine) -> dict[str, str]:
    """Bus id → real folder of the device, below /sys."""
    found: dict[str, str] = {}
    for function in machine.pci:
        # A parent stands before its children; one that a fault took out leaves the bus itself.
        above = found.get(function.parent or "") or f"devices/pci{function.bus_id[:7]}"
        found[function.bus_id] = f"{above}/{function.bus_id}"
    return found


def files(machine: Machine) -> Iterator[tuple[str, bytes | Link]]:
    """Every file of every PCI function, and the links that lead to it."""
    folders = folders_of(machine)
    for function in machine.pci:
        folder = folders[function.bus_id]
        yield f"sys/bus/pci/devices/{function.bus_id}", Link(f"../../../{folder}")
        if function.driver:
            up = "../" * (folder.count("/") + 1)
            yield f"sys/{folder}/driver", Link(f"{up}bus/pci/drivers/{function.driver}")
            yield f"sys/bus/pci/drivers/{function.driver}/module_name", _line(function.driver)
        for name, text in _texts(function).items():
            yield f"sys/{folder}/{name}", _line(text)
        yield f"sys/{folder}/config", config_space(function)


def _line(text: str) -> bytes:
    return text.encode() + b"\n"


def _texts(f: PciFunction) -> dict[str, str]:
    ids = (f.vendor, f.device, f.subsystem_vendor, f.subsystem_device)
    modalias = (
        f"pci:v{f.vendor:08X}d{f.device:08X}sv{f.subsystem_vendor:08X}sd{f.subsystem_device:08X}"
        f"bc{f.pci_class >> 16:02X}sc{f.pci_class >> 8 & 255:02X}i{f.pci_class & 255:02X}"
    )
    uevent = [f"DRIVER={f.driver}"] if f.driver else []
    uevent += [
        f"PCI_CLASS={f.pci_class:X}",
        f"PCI_ID={ids[0]:04X}:{ids[1]:04X}",
        f"PCI_SUBSYS_ID={ids[2]:04X}:{ids[3]:04X}",
        f"PCI_SLOT_NAME={f.bus_id}",
        f"MODALIAS={modalias}",
    ]
    return {
        "class": f"0x{f.pci_class:06x}",
        "vendor": f"0x{f.vendor:04x}",
        "device": f"0x{f.device:04x}",
        "subsystem_vendor": f"0x{f.subsystem_vendor:04x}",
        "subsystem_device": f"0x{f.subsystem_device:04x}",
        "numa_node": str(f.numa_node),
        "enable": "1",
        "uevent": "\n".join(uevent),
        "modalias": modalias,
        "current_link_speed": _speed(f.speed_gt_s),
        "max_link_speed": _speed(f.speed_max_gt_s),
        # A dead device's register reads all ones, which the kernel prints as 63 lanes.
        "current_link_width": "63" if f.dead else str(f.width),
        "max_link_width": str(f.width_max),
        "aer_dev_correctable": _counters(CORRECTABLE, f.aer_correctable, "TOTAL_ERR_COR"),
        "aer_dev_nonfatal": _counters(UNCORRECTABLE, f.aer_nonfatal, "TOTAL_ERR_NONFATAL"),
        "aer_dev_fatal": _counters(UNCORRECTABLE, f.aer_fatal, "TOTAL_ERR_FATAL"),
    }


def _speed(gt_s: float) -> str:
    return f"{gt_s:.1f} GT/s PCIe"


def _counters(names: tuple[str, ...], counts: dict[str, int], total: str) -> str:
    lines = [f"{name} {counts.get(name, 0)}" for name in names]
    return "\n".join([*lines, f"{total} {sum(counts.values())}"])


def config_space(f: PciFunction) -> bytes:
    """The standard header (PCI 3.0, 6.1); all ones where nothing answers any more."""
    if f.dead:
        return b"\xff" * CONFIG_BYTES
    bridge = f.role in ("root", "switch")
    header = struct.pack(
        "<HHHHBBBBBBBB",
        f.vendor, f.device, 0x0546, 0x0010,
        0xA1, f.pci_class & 255, f.pci_class >> 8 & 255, f.pci_class >> 16,
        16, 0, 1 if bridge else 0, 0,
    )  # fmt: skip
    body = bytearray(header.ljust(CONFIG_BYTES, b"\0"))
    if not bridge:
        struct.pack_into("<HH", body, 0x2C, f.subsystem_vendor, f.subsystem_device)
    return bytes(body)
