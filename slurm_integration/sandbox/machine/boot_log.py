"""The kernel log of a healthy boot, with the lines that careless patterns stumble over."""

from slurm_integration.sandbox.machine.description import LogLine, PciFunction
from slurm_integration.sandbox.machine.types import NodeType

DRIVER = "570.133.20"


def boot_lines(kind: NodeType, pci: tuple[PciFunction, ...]) -> tuple[LogLine, ...]:
    """What the kernel says while such a machine starts."""
    texts = [
        (0.0, "Linux version 6.8.0-52-generic (build@host) (gcc 13.2.0) #53-Ubuntu SMP"),
        (0.0, "Command line: BOOT_IMAGE=/vmlinuz root=/dev/md0 ro pci=realloc=off iommu=pt"),
        (0.42, "mce: CPU supports 32 MCE banks"),
        (0.71, "HEST: Table parsing has been initialized."),
        (0.72, "GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC."),
        (1.90, "RAS: Correctable Errors collector initialized."),
    ]
    texts += [
        (2.0 + n / 100, f"pcieport {f.bus_id}: AER: enabled with IRQ {130 + n}")
        for n, f in enumerate(f for f in pci if f.role == "root")
    ]
    texts += [
        (4.8, "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0"),
        (5.1, "EXT4-fs (md0): mounted filesystem with ordered data mode. Quota mode: none."),
        (6.0, "power_meter ACPI000D:00: Found ACPI power meter."),
    ]
    if kind.nic is not None:
        for n, nic in enumerate(f for f in pci if f.role == "nic"):
            at = 8.0 + n * 0.8
            texts += [
                (at, f"mlx5_core {nic.bus_id}: firmware version: {kind.nic.firmware}"),
                (at + 0.1, f"mlx5_core {nic.bus_id}: 504.112 Gb/s available PCIe bandwidth "
                           f"({nic.speed_max_gt_s:.1f} GT/s PCIe x{nic.width_max} link)"),
                (at + 0.2, f"mlx5_core {nic.bus_id}: Port module event: module 0, Cable plugged"),
            ]  # fmt: skip
    if kind.gpu is not None:
        texts.append((16.0, "nvidia: loading out-of-tree module taints kernel."))
        texts.append((16.1, "nvidia-nvlink: Nvlink Core is being initialized, major device 510"))
        texts += [
            (16.5 + n / 10, f"nvidia {f.bus_id}: enabling device (0140 -> 0142)")
            for n, f in enumerate(f for f in pci if f.role == "gpu")
        ]
        texts.append(
            (18.0, f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release")
        )
        texts += [
            (19.0 + n / 10, f"nvidia-nvswitch{n}: using MSI-X")
            for n, _ in enumerate(f for f in pci if f.role == "nvswitch")
        ]
        texts.append((21.0, "nvidia_uvm: module uses symbols nvUvmInterfaceDisableAccessCntr"))
    texts.append((24.0, "XFS (md1): Ending clean mount"))
    return tuple(
        LogLine(at, text, fields=_fields(text)) for at, text in sorted(texts, key=lambda t: t[0])
    )


def _fields(text: str) -> tuple[str, ...]:
    """The structured fields that dev_printk adds, for lines about a PCI device."""
    driver, _, rest = text.partition(" ")
    if driver not in {"pcieport", "mlx5_core", "nvidia"} or not rest.startswith("00"):
        return ()
    return ("SUBSYSTEM=pci", f"DEVICE=+pci:{rest.split(': ', 1)[0]}")
