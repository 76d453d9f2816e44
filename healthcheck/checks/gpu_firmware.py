"""Firmware of the GPUs: VBIOS and infoROM."""

from collections.abc import Iterator

import msgspec

from healthcheck.checks._gpus import listed, readable, supporting
from healthcheck.model import Action, Finding, Gpu, NotApplicable, Snapshot, warn
from healthcheck.registry import NoLimits, check

CORRUPTED_INFOROM = 14


class FirmwareLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`vbios`: the versions allowed; none stated: all GPUs of one kind must have the same."""

    vbios: tuple[str, ...] = ()


@check(
    "gpu-firmware",
    needs=("gpus",),
    limits=FirmwareLimits,
    source="GPUs of one node leave the factory with one VBIOS",
)
def gpu_firmware(node: Snapshot, limits: FirmwareLimits) -> Iterator[Finding]:
    """GPUs of one kind have the same VBIOS, one that the site allows.

    What it means: a GPU that was replaced often comes with other firmware, and then differs in
    clocks, power or bug fixes from its neighbours.

    What we do: warn about each GPU that differs from the list, or from most of its kind; where no
    version has a majority (one of two GPUs was replaced), about the node.

    What to do: flash the site's VBIOS, or add the new one to the profile.
    """
    gpus = supporting(node, "vbios")
    if not limits.vbios:
        yield from _undecided(gpus)
    for gpu in gpus:
        allowed = limits.vbios or _usual(gpu, gpus)
        if gpu.vbios not in allowed:
            wanted = " or ".join(allowed)
            yield warn(
                gpu.bus_id,
                f"VBIOS {gpu.vbios}, expected {wanted}"
                + ("" if limits.vbios else " as on the other GPUs of this node"),
                measured=gpu.vbios,
                expected=wanted,
                limit="vbios" if limits.vbios else None,
            )


def _undecided(gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Kinds whose GPUs differ without a majority: nobody knows yet which one is the odd one."""
    for kind in dict.fromkeys(gpu.name for gpu in gpus):
        alike = [gpu for gpu in gpus if gpu.name == kind]
        usual = _usual(alike[0], gpus)
        if len(usual) > 1:
            told = "; ".join(
                f"{version} on {listed([g.bus_id for g in alike if g.vbios == version], 4)}"
                for version in usual
            )
            yield warn(
                "node",
                f"GPUs of one kind have different VBIOS: {told}; expected one on all of them",
                measured=told,
                expected="one VBIOS on all GPUs of a kind",
            )


def _usual(gpu: Gpu, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    """The versions that most GPUs of this kind have; several where none has a majority."""
    versions = [other.vbios or "" for other in gpus if other.name == gpu.name]
    most = max(versions.count(version) for version in versions)
    return tuple(sorted({version for version in versions if versions.count(version) == most}))


@check(
    "gpu-inforom",
    needs=("gpus",),
    stages=("health", "sweep"),
    source="nvmlDeviceValidateInforom of NVIDIA's NVML API reference",
)
def gpu_inforom(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """Every GPU's infoROM passes its own checksum.

    What it means: the infoROM holds the record of bad memory and the GPU's settings. Corrupt, it
    can lose them at the next start.

    What we do: warn. Reading it is slow, so prolog and epilog leave it out.

    What to do: save `nvidia-bug-report.sh` output and reflash the infoROM with the vendor's tool;
    replace the GPU if it comes back.
    """
    gpus = readable(node)
    bad = [
        gpu.bus_id
        for gpu in gpus
        if gpu.inforom_valid is False or any(e.code == CORRUPTED_INFOROM for e in gpu.errors)
    ]
    for bus_id in bad:
        yield warn(
            bus_id,
            "the infoROM is corrupt: the record of bad memory may be lost at the next start",
            measured="corrupt",
            expected="valid",
            action=Action.DRAIN,
        )
    if not bad and all(gpu.inforom_valid is None for gpu in gpus):
        named = listed([gpu.bus_id for gpu in gpus], 2)
        raise NotApplicable(f"no GPU here lets its infoROM be checked ({named})")
