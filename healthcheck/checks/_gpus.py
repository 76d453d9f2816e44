"""What the GPU checks share: which GPUs can be judged, and what counts as a common cause."""

from collections.abc import Iterator, Sequence

import msgspec

from healthcheck.model import (
    Driver,
    Finding,
    Gpu,
    NotApplicable,
    PciDevice,
    Snapshot,
    Unmeasured,
)

NODE = "node"
"""The subject of a finding whose cause is not one GPU but what all of them share."""
NVIDIA = "0x10de"
DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15
VERSION_MISMATCH = 18


def pci_gpus(node: Snapshot) -> tuple[PciDevice, ...]:
    """NVIDIA GPUs on the PCI bus, without virtual functions."""
    return tuple(
        device
        for device in node.pci or ()
        if device.kind == "gpu" and not device.virtual and device.vendor == NVIDIA
    )


def usable(gpu: Gpu) -> bool:
    """Whether NVML gave a handle and did not lose the GPU while it was read."""
    return gpu.handle_error is None and all(e.code != GPU_IS_LOST for e in gpu.errors)


def readable(node: Snapshot) -> tuple[Gpu, ...]:
    """The GPUs that NVML could read.

    Raises NotApplicable where the node has no GPU at all, Unmeasured where it has some and NVML
    shows none: the GPUs are then judged by gpu-count and gpu-visibility, and nobody else may
    call them healthy.
    """
    gpus = tuple(gpu for gpu in node.gpus or () if usable(gpu))
    if gpus:
        return gpus
    if node.gpus:
        raise Unmeasured(f"none of {len(node.gpus)} GPUs answers NVML")
    if node.pci is None:
        raise Unmeasured("NVML shows no GPU and the PCI bus could not be read")
    if pci_gpus(node):
        raise Unmeasured(nvml_trouble(node.driver) or "NVML shows none of the GPUs on the PCI bus")
    raise NotApplicable("no NVIDIA GPU on this node")


def supporting(node: Snapshot, fact: str) -> tuple[Gpu, ...]:
    """The readable GPUs that have this fact. Raises NotApplicable where none has it.

    A GPU whose driver answers the call with an error is told by gpu-visibility.
    """
    gpus = tuple(gpu for gpu in readable(node) if getattr(gpu, fact) is not None)
    if not gpus:
        raise NotApplicable(f"no GPU here reports {fact.replace('_', ' ')}")
    return gpus


def nvml_trouble(driver: Driver | None) -> str | None:
    """Why NVML as a whole does not work, in words; None where it does."""
    if driver is None:
        return None
    if driver.library_missing:
        return "the NVML library (libnvidia-ml.so.1) is not installed"
    error = driver.init_error
    if error is None:
        return None
    if error.code == DRIVER_NOT_LOADED:
        return f"NVML does not start: the nvidia kernel driver is not loaded ({error.call})"
    if error.code == VERSION_MISMATCH:
        return (
            "NVML does not start: the library and the loaded kernel driver are of different "
            f"versions ({error.call}: {error.name}), as after an update without a reboot"
        )
    return f"NVML does not start: {error.call} answers {error.name} ({error.code})"


def common_cause(bad: Sequence[object], all_of: Sequence[object]) -> bool:
    """Whether every one of several GPUs has the same trouble: then look at what they share."""
    return len(all_of) > 1 and len(bad) == len(all_of)


def gather(findings: Sequence[Finding], gpus: Sequence[Gpu]) -> Iterator[Finding]:
    """Findings of one kind, at most one a GPU; one about the node where all GPUs have the same."""
    kinds = {(finding.severity, finding.measured) for finding in findings}
    if common_cause(findings, gpus) and len(kinds) == 1:
        first = findings[0]
        yield msgspec.structs.replace(
            first, subject=NODE, message=f"on all {len(gpus)} GPUs: {first.message}"
        )
        return
    yield from findings


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names for a message: at most `most` of them."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def ranges(numbers: Sequence[int]) -> str:
    """`0-3, 7`: link numbers for a message."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def sustained(samples: Sequence[int], bits: int) -> bool:
    """Whether a bit of the mask is set in at least two thirds of three or more samples."""
    return len(samples) >= 3 and 3 * seen(samples, bits) >= 2 * len(samples)


def seen(samples: Sequence[int], bits: int) -> int:
    """In how many samples a bit of the mask is set."""
    return sum(1 for sample in samples if sample & bits)
