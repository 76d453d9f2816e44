"""What the PCIe checks share: generations, and which of a node's devices a figure is about."""

from collections.abc import Iterator

from healthcheck.model import Gpu, PciDevice, Snapshot

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""PCI-SIG: transfer rate of a lane in GT/s → generation."""
BY_DESIGN = "if that slot is so by design, name the card in the check's `skip`"


def generation(speed_gt_s: float | None) -> int | None:
    """The PCIe generation of a link speed, None for one that is not known."""
    return GENERATIONS.get(speed_gt_s) if speed_gt_s is not None else None


def links(node: Snapshot, kind: str, skip: tuple[str, ...] = ()) -> Iterator[PciDevice]:
    """The devices of a kind whose link can be judged.

    Left out: virtual functions, which have no link; NICs without an RDMA device, which no figure
    is meant for; and what does not answer any more, whose registers all read ones.
    """
    for device in node.pci or ():
        silent = device.config_dead or device.rdma is False
        if device.kind == kind and not device.virtual and not silent and device.bus_id not in skip:
            yield device


def slot_of(node: Snapshot, device: PciDevice) -> PciDevice | None:
    """The bridge port that the device's link ends at."""
    return next((d for d in node.pci or () if d.bus_id == device.parent), None)


def gpus_by_address(node: Snapshot) -> dict[str, Gpu]:
    """NVML's GPUs by PCI address; empty where NVML was not read."""
    return {gpu.bus_id: gpu for gpu in node.gpus or () if gpu.bus_id}


def below(node: Snapshot, device: PciDevice) -> str:
    """` below 0000:00:01.0`, where there is something above."""
    return f" below {device.parent}" if device.parent else ""
