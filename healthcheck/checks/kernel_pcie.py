"""PCIe errors in the kernel log."""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import Action, Event, Finding, Snapshot, fail, warn
from healthcheck.registry import check


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From so many messages of corrected errors of one device within an hour on, a warning.

    The kernel prints two lines an error and drops most of a storm, so few lines mean many errors.
    """

    corrected_per_hour_warn: Annotated[int, msgspec.Meta(ge=1)] = 6


_FATAL = (
    r"Uncorrect(?:ed|able) \(Fatal\)|Surprise Down|\bSDES\b|containment event"
    r"|unmasked uncorrectable|device recovery failed"
)
_NONFATAL = r"Uncorrect(?:ed|able)\b"
_CORRECTED = r"Correct(?:ed|able)\b"
_LINK_DOWN = r"Link Down|Card not present"
_LINK_UP = r"Link Up"
_BUTTON = r"Attention button pressed"


@check(
    "kernel-pcie",
    needs=("kernel_log",),
    limits=Limits,
    source="Linux kernel: drivers/pci/pcie/aer.c and dpc.c, drivers/pci/hotplug/pciehp_ctrl.c",
)
def kernel_pcie(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """The kernel has seen no PCIe error that lost data or a device.

    What it means: an uncorrected fatal error, a surprise down or a DPC containment mean that a
    link broke and what is behind it is gone; a GPU then shows Xid 79. Corrected errors were
    sent again by the hardware; a storm of them points at a bad riser, cable or slot.

    What we do: fatal errors and lost links fail the node until a reboot or an accepted state. A
    link that came back, a nonfatal error and a storm of corrected ones are warnings; the
    counters of the same errors are judged by pcie-aer.

    What to do: drain; find the device behind the port in the message (lspci -t); check seating,
    riser, power and cooling; replace the part when it returns.
    """
    groups: dict[str, list[Event]] = {}
    for event in node.events("pcie", "power"):
        groups.setdefault(event.subject or "unknown device", []).append(event)
    for subject, events in sorted(groups.items(), key=lambda item: item[1][0].at):
        yield from _judge(node, subject, events, limits)


def _judge(node: Snapshot, subject: str, events: list[Event], limits: Limits) -> Iterator[Finding]:
    where = _behind(node, subject)
    power = [e for e in events if e.kind == "power"]
    fatal = [e for e in events if e.kind == "pcie" and re.search(_FATAL, e.message)]
    lost = _lost_link(events)
    if power:
        yield fail(
            subject,
            f'"{power[-1].message[:140]}": power off and connect the power cables of the board',
            measured=sum(e.count for e in power),
            expected=0,
            action=Action.DRAIN,
        )
    if fatal or (lost is not None and lost[1]):
        worst = fatal[0] if fatal else lost[0] if lost else events[0]
        yield fail(
            subject,
            f'PCIe: "{worst.message[:140]}"{where}: what is behind this link was lost; check '
            "seating, riser, power and cooling",
            measured=sum(e.count for e in fatal) or 1,
            expected=0,
            action=Action.REBOOT,
        )
        return
    if lost is not None:
        yield warn(subject, f'PCIe: "{lost[0].message[:140]}"{where}, but the link came back')
    nonfatal = [e for e in events if re.search(_NONFATAL, e.message)]
    if nonfatal:
        yield warn(
            subject,
            f'PCIe: nonfatal error "{nonfatal[-1].message[:140]}"{where}: watch its counters '
            "(pcie-aer)",
            measured=sum(e.count for e in nonfatal),
            expected=0,
        )
    corrected = [e for e in events if re.search(_CORRECTED, e.message) and e not in nonfatal]
    most = _most_in_an_hour(corrected)
    if most >= limits.corrected_per_hour_warn:
        yield warn(
            subject,
            f"PCIe: {most} messages of corrected errors within one hour{where} (warning from "
            f"{limits.corrected_per_hour_warn}): check riser, cable and slot",
            measured=most,
            expected=limits.corrected_per_hour_warn - 1,
            limit="corrected_per_hour_warn",
        )


def _lost_link(events: list[Event]) -> tuple[Event, bool] | None:
    """The last loss of a link that nobody asked for, and whether it is still lost."""
    last: tuple[Event, bool] | None = None
    asked = False
    for event in sorted(events, key=lambda e: e.at):
        if re.search(_BUTTON, event.message):
            asked = True
        elif re.search(_LINK_UP, event.message):
            asked = False
            last = (last[0], False) if last else None
        elif re.search(_LINK_DOWN, event.message) and not asked:
            last = (event, True)
    return last


def _most_in_an_hour(events: list[Event]) -> int:
    """The most messages within any hour. `events` in the order of time."""
    most = begin = total = 0
    for event in events:
        total += event.count
        while events[begin].at < event.at - 3600.0:
            total -= events[begin].count
            begin += 1
        most = max(most, total)
    return most


def _behind(node: Snapshot, subject: str) -> str:
    """Which GPUs, NICs and switches hang below a port, for the reader."""
    parents = {device.bus_id: device.parent for device in node.pci or ()}
    below = []
    for device in node.pci or ():
        if device.kind == "bridge" or device.virtual:
            continue
        above: str | None = device.bus_id
        for _ in range(16):
            if above == subject:
                below.append(f"{device.kind} {device.bus_id}")
                break
            above = parents.get(above or "")
    told = [name for name in below if not name.endswith(subject)]
    return f" (above {', '.join(told[:4])})" if told else ""
