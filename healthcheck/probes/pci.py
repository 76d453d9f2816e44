"""PCI: GPUs, NVSwitches, network cards and every bridge above them, from /sys/bus/pci.

A node has 100–300 PCI functions; all but the few that matter cost one small file each. Where the
kernel names the parts is Documentation/ABI/testing/sysfs-bus-pci.
"""

from typing import Any

from healthcheck.host import Host
from healthcheck.reading import Ask

DEVICES = "/sys/bus/pci/devices"
NVIDIA, MELLANOX = "0x10de", "0x15b3"
SMALL = 256
CLASSES = ("2", "3", "6")
"""First digit of PCI classes 02xxxx network, 03xxxx display, 06xxxx bridge, as uevent has them."""
AER_FILES = {
    "correctable": "aer_dev_correctable",
    "nonfatal": "aer_dev_nonfatal",
    "fatal": "aer_dev_fatal",
}


def read(ask: Ask) -> dict[str, Any]:
    """{"pci": devices}. FileNotFoundError where there is no PCI bus to look at."""
    host = ask.host
    found: dict[str, dict[str, Any]] = {}
    bridges: dict[str, str | None] = {}
    for bus_id in host.list_dir(DEVICES):
        if not is_bus_id(bus_id):
            continue
        path = f"{DEVICES}/{bus_id}"
        identity = _identity(host, path)
        kind = _kind(host, path, identity)
        if kind is None:
            continue
        found[bus_id] = _device(ask, bus_id, kind, identity)
        if not found[bus_id]["virtual"]:
            above = parents_in(host.real_path(path))
            found[bus_id]["parent"] = above[0] if above else None
            bridges |= zip(above, [*above[1:], None], strict=False)
    for bus_id, parent in bridges.items():
        if bus_id not in found:
            identity = _identity(host, f"{DEVICES}/{bus_id}")
            found[bus_id] = _device(ask, bus_id, "bridge", identity) | {"parent": parent}
    return {"pci": [found[bus_id] for bus_id in sorted(found)]}


def is_bus_id(name: str) -> bool:
    """Whether this is a PCI address as sysfs writes it (`0000:b3:00.0`, `10000:e1:00.0`)."""
    domain, _, rest = name.partition(":")
    return (
        4 <= len(domain) <= 8
        and len(rest) == 7
        and rest[2] == ":"
        and rest[5] == "."
        and _is_hex(domain + rest[:2] + rest[3:5] + rest[6])
    )


def _is_hex(text: str) -> bool:
    return bool(text) and not text.strip("0123456789abcdef")


def parse_uevent(text: str) -> dict[str, str]:
    """`class`, `vendor`, `device`, `subsystem`, `driver` of a PCI uevent file, as sysfs words."""
    words = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    found: dict[str, str] = {}
    if _is_hex(words.get("PCI_CLASS", "").lower()):
        found["class"] = "0x" + words["PCI_CLASS"].lower().zfill(6)
    vendor, _, device = words.get("PCI_ID", "").lower().partition(":")
    if _is_hex(vendor) and _is_hex(device):
        found["vendor"], found["device"] = "0x" + vendor, "0x" + device
    subsystem = words.get("PCI_SUBSYS_ID", "").lower()
    if _is_hex(subsystem.replace(":", "", 1)):
        found["subsystem"] = subsystem
    if words.get("DRIVER"):
        found["driver"] = words["DRIVER"][:64]
    return found


def parse_speed(text: str | None) -> float | None:
    """GT/s out of `16.0 GT/s PCIe`, `16 GT/s` or `2.5 GT/s`; None for `Unknown` and oddities."""
    number, _, unit = (text or "").partition(" ")
    if not unit.startswith("GT/s"):
        return None
    try:
        speed = float(number)
    except ValueError:
        return None
    return speed if 0 < speed < 1024 else None


def parse_width(text: str | None) -> int | None:
    """Lanes. 0 is a link that is down; the kernel prints 63 or 255 where nothing answers."""
    lanes = parse_count(text)
    return lanes if lanes is not None and lanes <= 32 else None


def parse_count(text: str | None) -> int | None:
    """A number that is not negative and fits the kernel's 64 bits, or None."""
    if not text or len(text) > 20 or not (text.isascii() and text.isdigit()):
        return None
    count = int(text)
    return count if count < 1 << 64 else None


def parse_aer(text: str) -> dict[str, int] | None:
    """Error kinds that happened, by name; names hold spaces. None where no line is a counter.

    The TOTAL line is left out: it also counts errors that have no line of their own, and so it
    is not the sum.
    """
    found: dict[str, int] = {}
    counters = 0
    for line in text.splitlines():
        if line.endswith(" 0"):  # nearly all of them
            counters += 1
            continue
        name, _, number = line.rpartition(" ")
        count = parse_count(number)
        if count is None or not name.strip():
            continue
        counters += 1
        if count and not name.startswith("TOTAL_"):
            found[name.strip()[:64]] = count
    return found if counters else None


def parents_in(path: str) -> list[str]:
    """Bridges on the way to a device's real folder, nearest first.

    A host bridge in the middle (a VMD domain) ends the way: no PCIe link leads past it.
    """
    above: list[str] = []
    for part in reversed(path.split("/")[:-1]):
        if not is_bus_id(part):
            break
        above.append(part)
    return above


def _identity(host: Host, path: str) -> dict[str, str]:
    """What the function is: out of one file where the kernel offers it, else out of several."""
    text = _text(host, f"{path}/uevent", 1024) or ""
    if "PCI_CLASS=" in text and not any(f"PCI_CLASS={c}" in text for c in CLASSES):
        return {}  # most of a node's functions; reading on would cost more than all the others
    found = parse_uevent(text)
    if "class" in found and "vendor" in found:
        return found
    for name in ("class", "vendor", "device"):
        word = (_text(host, f"{path}/{name}") or "").lower()
        if word.startswith("0x") and _is_hex(word[2:]):
            found.setdefault(name, word)
    return found


def _kind(host: Host, path: str, identity: dict[str, str]) -> str | None:
    """gpu, nvswitch or nic; None for all that no check asks about."""
    function, vendor = identity.get("class", "")[:6], identity.get("vendor")
    if vendor == NVIDIA and function in ("0x0300", "0x0302"):
        return "gpu"
    if vendor == NVIDIA and function == "0x0680":
        return "nvswitch"
    if function in ("0x0200", "0x0207") and (
        vendor == MELLANOX or host.exists(f"{path}/infiniband")
    ):
        return "nic"
    return None


def _device(ask: Ask, bus_id: str, kind: str, identity: dict[str, str]) -> dict[str, Any]:
    host, path = ask.host, f"{DEVICES}/{bus_id}"
    ask.progress.note("read", path)
    device: dict[str, Any] = {
        "bus_id": bus_id,
        "kind": kind,
        "vendor": identity.get("vendor", ""),
        "device": identity.get("device", ""),
        "subsystem": identity.get("subsystem"),
        "driver": identity.get("driver"),
        "virtual": kind != "bridge" and host.exists(f"{path}/physfn"),
    }
    if device["virtual"]:  # no link and no error counters of its own
        return device
    device["config_dead"] = _config_dead(host, path)
    device["link_speed_gt_s"] = parse_speed(_text(host, f"{path}/current_link_speed"))
    device["link_speed_max_gt_s"] = parse_speed(_text(host, f"{path}/max_link_speed"))
    device["link_width"] = parse_width(_text(host, f"{path}/current_link_width"))
    device["link_width_max"] = parse_width(_text(host, f"{path}/max_link_width"))
    device["aer"] = _aer(host, path)
    if kind != "bridge":
        device["numa_node"] = parse_count(_text(host, f"{path}/numa_node"))
    if kind == "nic":
        device["rdma"] = host.exists(f"{path}/infiniband")
    return device


def _config_dead(host: Host, path: str) -> bool | None:
    try:
        head = host.read_bytes(f"{path}/config", 4)
    except OSError:
        return None
    return head == b"\xff\xff\xff\xff" if len(head) == 4 else None


def _aer(host: Host, path: str) -> dict[str, dict[str, int]] | None:
    """All three kinds, or None where the kernel does not count for this device."""
    found: dict[str, dict[str, int]] = {}
    for kind, name in AER_FILES.items():
        text = _text(host, f"{path}/{name}", 4096)
        counts = None if text is None else parse_aer(text)
        if counts is None:
            return None
        found[kind] = counts
    return found


def _text(host: Host, path: str, limit: int = SMALL) -> str | None:
    try:
        return host.read_text(path, limit)
    except OSError:
        return None
