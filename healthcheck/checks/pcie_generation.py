"""PCIe link generation."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._pcie import BY_DESIGN, below, generation, gpus_by_address, links, slot_of
from healthcheck.model import (
    Action,
    Finding,
    Gpu,
    NotApplicable,
    PciDevice,
    Snapshot,
    Unmeasured,
    fail,
    warn,
)
from healthcheck.registry import check

Generation = Annotated[int, msgspec.Meta(ge=1, le=7)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PCIe generations. `skip`: PCI addresses that are not judged.

    `load_percent`: a GPU at least this busy must have raised its link (our choice: GPUs slow an
    idle link down to save power, and raise it within milliseconds of work).
    """

    gpu: Generation | None = None
    nic: Generation | None = None
    load_percent: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50
    skip: tuple[str, ...] = ()


class _Link(msgspec.Struct, frozen=True):
    """What the two ends of one link can do, and what it does."""

    now: int | None
    device: int | None
    slot: int | None
    slot_id: str | None
    nvml_max: int | None


@check(
    "pcie-generation",
    needs=("pci",),
    limits=Limits,
    source="sysfs current_link_speed and max_link_speed, nvmlDeviceGetMaxPcieLinkGeneration",
)
def pcie_generation(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Every GPU and RDMA card can run, and under load does run, at its profile's PCIe generation.

    What it means: each generation lost halves the speed of copies and of the network. A bad riser
    or retimer, or a BIOS setting, holds the link down; errors on the link make it train lower.

    What we do: judge what both ends of the link can do always, against the profile and not
    against NVML's maximum, which has the bad riser already taken into account. What a GPU's link
    does now is judged only under load: Gen1 at idle is normal. Network cards don't slow down, so
    theirs is judged always. A NIC that can't do the generation at all is another kind of card; a
    slot that can't is a failure for a GPU and a warning for a NIC.

    What to do: compare the slot's BIOS setting with a healthy node; reboot once; reseat the card;
    then replace riser, retimer or card.
    """
    if limits.gpu is None and limits.nic is None:
        raise NotApplicable("the profile expects no PCIe generation")
    measured = 0
    gpus = gpus_by_address(node)
    for kind, expected in (("gpu", limits.gpu), ("nic", limits.nic)):
        for device in links(node, kind, limits.skip) if expected else ():
            gpu = gpus.get(device.bus_id)
            link = _link(node, device, gpu)
            if link.now is None and link.device is None and link.nvml_max is None:
                continue
            measured += 1
            if kind == "gpu":
                yield from _judge_gpu(node, device, gpu, link, limits)
            else:
                yield from _judge_nic(node, device, link, limits)
    if not measured:
        raise Unmeasured("no GPU or RDMA card here has a PCIe link speed that can be read")


def _link(node: Snapshot, device: PciDevice, gpu: Gpu | None) -> _Link:
    slot = slot_of(node, device)
    now = generation(device.link_speed_gt_s)
    return _Link(
        now=gpu.pcie_generation if gpu and gpu.pcie_generation else now,
        device=generation(device.link_speed_max_gt_s),
        slot=generation(slot.link_speed_max_gt_s) if slot else None,
        slot_id=slot.bus_id if slot else None,
        nvml_max=gpu.pcie_generation_max if gpu else None,
    )


def _judge_gpu(
    node: Snapshot, device: PciDevice, gpu: Gpu | None, link: _Link, limits: Limits
) -> Iterator[Finding]:
    expected = limits.gpu or 0
    able = min((g for g in (link.device, link.slot, link.nvml_max) if g), default=None)
    if able is not None and able < expected:
        yield fail(
            device.bus_id,
            f"GPU's PCIe link{below(node, device)} can do only Gen{able}, expected "
            f"Gen{expected}: {_who(link, able)}",
            measured=able,
            expected=expected,
            action=Action.REPLACE,
            limit="gpu",
        )
        return
    load = gpu.utilization_percent if gpu else None
    if load is None or load < limits.load_percent or link.now is None or link.now >= expected:
        return
    yield fail(
        device.bus_id,
        f"GPU's PCIe link{below(node, device)} runs at Gen{link.now} while the GPU is {load} % "
        f"busy, expected Gen{expected}",
        measured=link.now,
        expected=expected,
        action=Action.REBOOT,
        limit="gpu",
    )


def _who(link: _Link, able: int) -> str:
    """Which end holds the link down."""
    if link.slot == able and link.device != able:
        return f"the port {link.slot_id} above offers no more (riser, retimer or BIOS setting)"
    if link.device == able:
        return "the card itself offers no more"
    return "NVML's maximum for card and slot together (riser, retimer or BIOS setting)"


def _judge_nic(node: Snapshot, device: PciDevice, link: _Link, limits: Limits) -> Iterator[Finding]:
    expected = limits.nic or 0
    if link.now is None or link.now >= expected or (link.device or expected) < expected:
        return
    message = f"NIC's PCIe link{below(node, device)} runs at Gen{link.now}, expected Gen{expected}"
    if link.slot is not None and link.slot < expected:
        yield warn(
            device.bus_id,
            f"{message}; the port {link.slot_id} offers only Gen{link.slot}; {BY_DESIGN}",
            measured=link.now,
            expected=expected,
            limit="nic",
        )
        return
    yield fail(
        device.bus_id,
        message,
        measured=link.now,
        expected=expected,
        action=Action.REBOOT,
        limit="nic",
    )
