"""Devices that have gone silent on the PCI bus."""

from collections.abc import Iterator

from healthcheck.model import Action, Finding, NotApplicable, Snapshot, fail
from healthcheck.model.fabric import upstream
from healthcheck.registry import NoLimits, check

WORDS = {"nic": "network card", "nvswitch": "NVSwitch", "bridge": "PCIe bridge"}


@check(
    "pcie-responsive",
    needs=("pci",),
    source="PCI: reads of a device that does not answer give all ones",
)
def pcie_responsive(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """Every network card, NVSwitch and bridge on the way to a GPU answers on the PCI bus.

    What it means: the first bytes of the configuration space read all ones, so nothing answers:
    the card lost power, its firmware died or its link went down.

    What we do: fail, once for the topmost silent device: all below it is silent too. Silent GPUs
    are the business of gpu-visibility.

    What to do: power-cycle the node (a warm reboot may not be enough); replace the card if it
    comes back silent.
    """
    devices = node.pci or ()
    asked = [d for d in devices if d.kind in WORDS and d.config_dead is not None]
    if not asked:
        raise NotApplicable("no network card, NVSwitch or bridge on the PCI bus here")
    for device in asked:
        if not device.config_dead or any(d.config_dead for d in upstream(devices, device.bus_id)):
            continue
        silent = [
            d.bus_id
            for d in devices
            if d.kind != "bridge" and device in upstream(devices, d.bus_id)
        ]
        behind = f"; behind it: {', '.join(silent)}" if silent else ""
        yield fail(
            device.bus_id,
            f"{WORDS[device.kind]} does not answer on the PCI bus any more (configuration space "
            f"reads all ones){behind}",
            action=Action.REBOOT,
        )
