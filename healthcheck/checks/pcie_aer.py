"""PCIe errors that the kernel counts (Advanced Error Reporting)."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import (
    Action,
    Finding,
    Growth,
    NotApplicable,
    PciDevice,
    Snapshot,
    Unmeasured,
    fail,
    warn,
)
from healthcheck.registry import check

KINDS = ("fatal", "nonfatal", "correctable")
WORDS = {"gpu": "GPU", "nic": "network card", "nvswitch": "NVSwitch", "bridge": "PCIe switch"}


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`correctable_per_hour`: our choice. The link mends these itself and a few a day are normal;
    nobody publishes a limit, and one every half minute is no accident any more."""

    correctable_per_hour: Annotated[float, msgspec.Meta(ge=0)] = 120


class _Link(msgspec.Struct, frozen=True):
    """One PCIe link: the device below it that errors are laid to, and all that count for it."""

    device: PciDevice
    ends: tuple[PciDevice, ...]


@check(
    "pcie-aer",
    needs=("pci",),
    limits=Limits,
    source="Linux AER statistics (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats)",
)
def pcie_aer(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """No PCIe link on the way to a GPU, NVSwitch or network card reports errors.

    What it means: a fatal or non-fatal error is a lost transfer; the device may be unusable since.
    Correctable errors were mended by the link itself, and many of them announce the others.

    What we do: count from the last look, on every port up to the root. Either end of a link may be
    the one that counts, so both make one finding, about the device below. Fatal and non-fatal
    errors fail; correctable ones warn by rate.

    What to do: drain; power-cycle; reseat the device or riser; replace what errs again. When
    several devices below one switch err together, look at the switch and its cable first.
    """
    devices = [d for d in node.pci or () if not d.virtual]
    if not any(d.aer is not None for d in devices):
        if _counted_before(node):
            raise Unmeasured("the kernel's AER counters were there at the last look and are gone")
        raise NotApplicable("the kernel offers no AER counters here (virtual machine, or firmware)")
    for link in _links(devices):
        yield from _judge(node, link, limits)


def _counted_before(node: Snapshot) -> bool:
    counters = node.baseline.counters if node.baseline else {}
    return any("|aer_" in key for key in counters)


def _links(devices: list[PciDevice]) -> Iterator[_Link]:
    """All links, each with its upper port and the functions below it.

    From the root down ports alternate: a root port faces down, a switch's upper port faces up, its
    lower ports down again. So the ports at an even depth are the upper ends of links.
    """
    known = {d.bus_id: d for d in devices}
    below: dict[str, list[PciDevice]] = {}
    for device in devices:
        below.setdefault(device.parent or "", []).append(device)
    for device in devices:
        if _depth(known, device) % 2:
            if device.parent not in known:  # its port could not be read
                yield _Link(device, (device,))
            continue
        lower = below.get(device.bus_id, [])
        ends = (*lower, device)
        yield _Link(min(lower or ends, key=lambda d: d.bus_id), ends)


def _depth(known: dict[str, PciDevice], device: PciDevice) -> int:
    """Ports above a device; a ring, which only a forged snapshot holds, ends the count."""
    depth = 0
    here: PciDevice | None = device
    while here is not None and here.parent is not None and depth <= len(known):
        depth += 1
        here = known.get(here.parent)
    return depth


def _judge(node: Snapshot, link: _Link, limits: Limits) -> Iterator[Finding]:
    grown = {kind: _growth(node, link, kind) for kind in KINDS}
    lost = {kind: grown[kind] for kind in ("fatal", "nonfatal") if grown[kind]}
    if lost:
        counts = " and ".join(
            f"{max(g.delta for g in ends.values())} {'non-fatal' if k == 'nonfatal' else k}"
            for k, ends in lost.items()
        )
        yield fail(
            link.device.bus_id,
            f"{counts} PCIe error(s) since the last look on the link to this "
            f"{WORDS[link.device.kind]} ({_told(link, lost)})",
            measured=sum(max(g.delta for g in ends.values()) for ends in lost.values()),
            expected=0,
            action=Action.REBOOT if "fatal" in lost else Action.DRAIN,
        )
    mended = grown["correctable"]
    worst = max(mended.values(), key=Growth.per_hour, default=None)
    if worst is not None and worst.per_hour() > limits.correctable_per_hour:
        rate = round(worst.per_hour())
        yield warn(
            link.device.bus_id,
            f"{worst.delta} corrected PCIe errors in {worst.seconds:.0f} s ({rate} an hour) on the "
            f"link to this {WORDS[link.device.kind]}, expected at most "
            f"{limits.correctable_per_hour:g} an hour "
            f"({_told(link, {'correctable': mended})})",
            measured=rate,
            expected=limits.correctable_per_hour,
            limit="correctable_per_hour",
        )


def _growth(node: Snapshot, link: _Link, kind: str) -> dict[str, Growth]:
    """Which ends of the link counted how many new errors."""
    found = {}
    for end in link.ends:
        if end.aer is None:
            continue
        total = sum(getattr(end.aer, kind).values())
        grown = node.growth(end.bus_id, f"aer_{kind}", total)
        if grown is not None and grown.delta:
            found[end.bus_id] = grown
    return found


def _told(link: _Link, grown: dict[str, dict[str, Growth]]) -> str:
    """Who counted, and which kinds stand on record there."""
    ends = {end.bus_id: end for end in link.ends}
    parts = []
    for bus_id in dict.fromkeys(bus_id for counted in grown.values() for bus_id in counted):
        aer = ends[bus_id].aer
        names = {n for kind in grown for n, count in getattr(aer, kind).items() if count}
        parts.append(f"counted by {bus_id}: {', '.join(sorted(names)[:4])}")
    return "; ".join(parts)
