"""Main memory: its size, and the errors its controllers count."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import Finding, Growth, NotApplicable, Snapshot, Unmeasured, fail, warn
from healthcheck.model.judgement import Action
from healthcheck.model.machine import MemoryController
from healthcheck.registry import check

GIB = 1 << 30
FIXED_RESERVE_GIB = 1.0
"""Firmware, kernel image and crash kernel, whatever the size of the memory."""


class SizeLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`min_gib`: what is installed, in GiB (sum of the modules).

    `reserved_percent` of it, and one GiB, may be missing from MemTotal: the kernel's page
    descriptors alone take 64 bytes for 4 KiB, 1.6 %.
    """

    min_gib: Annotated[float, msgspec.Meta(gt=0, le=1 << 20)]
    reserved_percent: Annotated[float, msgspec.Meta(ge=0, le=50)] = 2.0


@check(
    "memory-size",
    needs=("memory",),
    limits=SizeLimits,
    source="kernel Documentation/filesystems/proc.rst (MemTotal)",
)
def memory_size(node: Snapshot, limits: SizeLimits) -> Iterator[Finding]:
    """The operating system sees all the memory that is installed.

    What it means: the firmware switches a memory module off when it fails its training or its
    test at boot. The node then runs with less memory and an uneven memory bandwidth, and a job
    that fits the others dies here of lack of memory.

    What we do: fail where MemTotal is below the installed size less what a kernel reserves for
    itself (2 % and 1 GiB).

    What to do: look for the disabled module in the system event log or `dmidecode -t memory`;
    reseat or replace it.
    """
    assert node.memory is not None
    total = node.memory.total_bytes / GIB
    least = limits.min_gib * (1 - limits.reserved_percent / 100) - FIXED_RESERVE_GIB
    if total < least:
        yield fail(
            "memory",
            f"{total:.0f} GiB of memory seen, {limits.min_gib:g} GiB installed (at least "
            f"{least:.0f} GiB expected): a memory module is missing or switched off",
            measured=round(total, 1),
            expected=round(least, 1),
            action=Action.DRAIN,
            limit="min_gib",
        )


class ErrorLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Corrected errors an hour and controller; `required`: a node type that must have EDAC."""

    corrected_per_hour_warn: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    required: bool = False


@check(
    "memory-errors",
    needs=("memory_controllers",),
    limits=ErrorLimits,
    source="kernel Documentation/admin-guide/ras.rst (EDAC); corrected errors: mcelog.conf warns "
    "at 10 a module and day",
)
def memory_errors(node: Snapshot, limits: ErrorLimits) -> Iterator[Finding]:
    """No memory controller has met an uncorrected error since the last look.

    What it means: an uncorrected error is data that was lost: a process was killed for it, or
    the kernel was lucky. Corrected errors lose nothing, but many of them announce the other kind.

    What we do: fail where the uncorrected count has grown since the baseline, warn where
    corrected errors come faster than the limit. Totals from before the baseline judge nothing.
    Without an EDAC driver nothing is counted and the check does not apply, unless the profile
    says `required`.

    What to do: replace the memory module named; without a name, see the machine checks in the
    kernel log (machine-check) and the system event log.
    """
    controllers = node.memory_controllers or ()
    if not controllers:
        if limits.required:
            raise Unmeasured("no EDAC driver is loaded: memory errors are not counted")
        raise NotApplicable("no EDAC driver here, memory errors are not counted")
    if all(c.corrected is None and c.uncorrected is None for c in controllers):
        raise Unmeasured(f"the counters of {len(controllers)} memory controllers cannot be read")
    for controller in controllers:
        lost = node.growth(controller.name, "uncorrected", controller.uncorrected)
        if lost is not None and lost.delta > 0:
            yield _uncorrected(controller, lost)
        mended = node.growth(controller.name, "corrected", controller.corrected)
        if mended is not None and mended.per_hour() > limits.corrected_per_hour_warn:
            yield _corrected(controller, mended, limits)


def _uncorrected(controller: MemoryController, growth: Growth) -> Finding:
    return fail(
        controller.name,
        f"{growth.delta} uncorrected memory errors since the last look"
        f"{_suspects(controller, 'uncorrected')}; data in main memory was lost",
        measured=growth.delta,
        expected=0,
        action=Action.REPLACE,
    )


def _corrected(controller: MemoryController, growth: Growth, limits: ErrorLimits) -> Finding:
    rate = growth.per_hour()
    return warn(
        controller.name,
        f"{rate:.0f} corrected memory errors an hour, expected at most "
        f"{limits.corrected_per_hour_warn:g}{_suspects(controller, 'corrected')}",
        measured=round(rate, 1),
        expected=limits.corrected_per_hour_warn,
        limit="corrected_per_hour_warn",
    )


def _suspects(controller: MemoryController, counter: str) -> str:
    """`, most of them on DIMM_A1 (12)`: the modules with such errors since the driver's start."""
    counts = {module.label: getattr(module, counter) for module in controller.modules}
    worst = sorted((label for label in counts if counts[label]), key=lambda n: -counts[n])[:3]
    return f", on {', '.join(f'{n} ({counts[n]})' for n in worst)}" if worst else ""
