"""PCIe link width."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._pcie import BY_DESIGN, below, gpus_by_address, links, slot_of
from healthcheck.model import (
    Action,
    Finding,
    NotApplicable,
    PciDevice,
    Snapshot,
    Unmeasured,
    fail,
    warn,
)
from healthcheck.registry import check

Lanes = Annotated[int, msgspec.Meta(ge=1, le=32)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In lanes. `skip`: PCI addresses that are not judged."""

    gpu: Lanes | None = None
    nic: Lanes | None = None
    skip: tuple[str, ...] = ()


@check(
    "pcie-width",
    needs=("pci",),
    limits=Limits,
    source="sysfs current_link_width, nvmlDeviceGetCurrPcieLinkWidth",
)
def pcie_width(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Every GPU and every RDMA card has as many PCIe lanes as its profile says.

    What it means: a link that trained with fewer lanes moves data at that fraction of its speed,
    for every job, without any error. Dirty or worn contacts, a bad riser or a bent pin do this.

    What we do: compare what the kernel and NVML read now with the profile; fewer fails. Virtual
    functions have no link. A card that can't do the width at all is another kind of card than the
    figure is about; a slot that can't is a failure for a GPU and a warning for a NIC.

    What to do: reboot once (links train anew); if it stays, reseat the card, then the riser or
    cable, then replace it. The port above, named in the finding, is the other end of the link.
    """
    if limits.gpu is None and limits.nic is None:
        raise NotApplicable("the profile expects no PCIe width")
    measured = 0
    for kind, expected in (("gpu", limits.gpu), ("nic", limits.nic)):
        if expected is None:
            continue
        for device in links(node, kind, limits.skip):
            width = _width(node, device)
            if width is None:
                continue
            measured += 1
            if width < expected:
                yield from _narrow(node, device, width, expected)
    if not measured:
        raise Unmeasured("no GPU or RDMA card here has a PCIe width that can be read")


def _width(node: Snapshot, device: PciDevice) -> int | None:
    """The smaller of what sysfs and NVML say. A hypervisor's link that can do 0 lanes is none."""
    gpu = gpus_by_address(node).get(device.bus_id)
    said = [
        device.link_width if device.link_width or device.link_width_max else None,
        gpu.pcie_width if gpu else None,
    ]
    return min((width for width in said if width is not None), default=None)


def _narrow(node: Snapshot, device: PciDevice, width: int, expected: int) -> Iterator[Finding]:
    able, slot = device.link_width_max, slot_of(node, device)
    if device.kind == "nic" and able is not None and able < expected:
        return
    slot_width = slot.link_width_max if slot else None
    by_slot = slot_width is not None and slot_width < expected
    what = "GPU" if device.kind == "gpu" else "NIC"
    lanes = f"{width} of {expected} lanes" if width else f"down (0 of {expected} lanes)"
    message = f"{what}'s PCIe link{below(node, device)} runs at x{width}: {lanes}"
    action = Action.REBOOT
    if by_slot and slot is not None:
        message += f"; the port {slot.bus_id} offers only x{slot_width}"
        action = Action.REPLACE
    if by_slot and device.kind == "nic":
        yield warn(
            device.bus_id,
            f"{message}; {BY_DESIGN}",
            measured=width,
            expected=expected,
            limit=device.kind,
        )
        return
    yield fail(
        device.bus_id,
        message,
        measured=width,
        expected=expected,
        action=action,
        limit=device.kind,
    )
