"""InfiniBand and RoCE devices and their ports, from /sys/class/infiniband.

Only the counters that our checks judge are read: each file under `counters` is a question to the
card's firmware. A card that refuses a counter (EINVAL) logs each refusal in the kernel log, so one
refusal is enough: the file is not asked of the device's other ports.
Source: Documentation/ABI/stable/sysfs-class-infiniband and drivers/infiniband/core/sysfs.c.
"""

from typing import Any

from healthcheck.host import Host
from healthcheck.probes.pci import is_bus_id, parse_count
from healthcheck.reading import Ask

DEVICES = "/sys/class/infiniband"
SMALL = 256
COUNTERS = (
    "link_downed",
    "link_error_recovery",
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
HW_COUNTERS = (
    "local_ack_timeout_err",
    "packet_seq_err",
    "out_of_sequence",
    "rnr_nak_retry_err",
)
TEXTS = {
    "firmware": "fw_ver",
    "board_id": "board_id",
    "hca_type": "hca_type",
    "node_guid": "node_guid",
}


def read(ask: Ask) -> dict[str, Any]:
    """{"hcas": devices}.

    A kernel without the class folder has no InfiniBand device: that is an answer (none), since a
    node that should have eight must not pass for one that could not be read. FileNotFoundError
    only where there is no sysfs at all.
    """
    try:
        names = ask.host.list_dir(DEVICES)
    except FileNotFoundError:
        ask.host.list_dir("/sys")
        names = []
    return {"hcas": [_hca(ask, name) for name in names]}


def parse_state(text: str | None) -> str | None:
    """`4: ACTIVE` → ACTIVE, `5: LinkUp` → LinkUp; None for what does not look like a state."""
    number, colon, word = (text or "").partition(":")
    word = word.strip()
    plain = word.isascii() and word.replace("_", "").replace(" ", "").isalnum() and len(word) <= 32
    return word if colon and number.strip().isdigit() and plain else None


def parse_rate(text: str | None) -> float | None:
    """Gb/s out of `400 Gb/sec (4X NDR)`; None for oddities."""
    number, _, unit = (text or "").partition(" ")
    if not unit.startswith("Gb/sec"):
        return None
    try:
        rate = float(number)
    except ValueError:
        return None
    return rate if 0 <= rate < 1e5 else None


def parse_word(text: str | None) -> str | None:
    """A short printable name (firmware, board id, link layer), or None."""
    if not text or len(text) > 64 or not (text.isascii() and text.isprintable()):
        return None
    return None if text == "N/A" else text


def parse_layer(text: str | None) -> str | None:
    """`InfiniBand` or `Ethernet` (the kernel also has `Unspecified` and `Unknown`)."""
    word = parse_word(text)
    return word if word is not None and word.isalpha() else None


def address_in(path: str) -> tuple[str | None, bool]:
    """The PCI address in a device's real folder, and whether the device is that function itself.

    A scalable function lies one folder below its card's; a software device (rxe, siw) has none.
    """
    parts = path.rstrip("/").split("/")
    address = next((part for part in reversed(parts) if is_bus_id(part)), None)
    return address, address is not None and address == parts[-1]


def _hca(ask: Ask, name: str) -> dict[str, Any]:
    host, path = ask.host, f"{DEVICES}/{name}"
    ask.progress.note("read", path)
    address, whole = address_in(host.real_path(f"{path}/device"))
    virtual = not whole or host.exists(f"{path}/device/physfn")
    hca: dict[str, Any] = {"name": name, "bus_id": address, "virtual": virtual, "ports": []}
    if virtual:  # shares its card's port; its counters are refused or another's
        return hca
    for fact, file in TEXTS.items():
        hca[fact] = parse_word(_text(host, f"{path}/{file}"))
    refused: set[str] = set()
    for number in _port_numbers(host, path):
        folder = f"{path}/ports/{number}"
        ask.progress.note("read", folder)
        hca["ports"].append(_port(host, folder, number, refused))
    return hca


def _port_numbers(host: Host, path: str) -> list[int]:
    try:
        names = host.list_dir(f"{path}/ports")
    except OSError:
        return []
    return sorted(int(name) for name in names if parse_count(name) is not None)


def _port(host: Host, folder: str, number: int, refused: set[str]) -> dict[str, Any]:
    unreadable: list[str] = []
    port: dict[str, Any] = {
        "number": number,
        "state": parse_state(_text(host, f"{folder}/state")),
        "phys_state": parse_state(_text(host, f"{folder}/phys_state")),
        "rate_gb_s": parse_rate(_text(host, f"{folder}/rate")),
        "link_layer": parse_layer(_text(host, f"{folder}/link_layer")),
        "counters": _counters(host, f"{folder}/counters", COUNTERS, refused, unreadable),
        "hw_counters": _counters(host, f"{folder}/hw_counters", HW_COUNTERS, refused, unreadable),
        "unreadable": unreadable,
    }
    if port["link_layer"] == "Ethernet":
        port["netdev"] = parse_word(_text(host, f"{folder}/gid_attrs/ndevs/0"))
    return port


def _counters(
    host: Host, folder: str, names: tuple[str, ...], refused: set[str], unreadable: list[str]
) -> dict[str, int]:
    """The counters that this port offers. One that does not exist here is not unreadable."""
    found: dict[str, int] = {}
    for name in names:
        if name in refused:
            unreadable.append(name)
            continue
        try:
            value = parse_count(host.read_text(f"{folder}/{name}", SMALL))
        except FileNotFoundError:
            continue
        except OSError:
            refused.add(name)
            value = None
        if value is None:
            unreadable.append(name)
        else:
            found[name] = value
    return found


def _text(host: Host, path: str) -> str | None:
    try:
        return host.read_text(path, SMALL)
    except OSError:
        return None
