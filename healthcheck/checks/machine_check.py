"""Machine checks and memory errors in the kernel log."""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import Action, Event, Finding, Snapshot, fail, info, warn
from healthcheck.registry import check


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From so many corrected errors of one subject in this boot on, a warning."""

    corrected_warn: Annotated[int, msgspec.Meta(ge=1)] = 1


_UNCORRECTED = (
    r"Machine Check Exception|Uncorrected|System Fatal error|\bUE\b|Killing"
    r"|event severity: *(?:fatal|recoverable)|^Memory failure:"
)
_STATUS = r"Machine Check: \d+ Bank \d+: ([0-9a-f]{16})\b"
_UC = 1 << 61
"""MCi_STATUS.UC, "error uncorrected" (Intel SDM volume 3B, 15.3.2.2; the same bit on AMD)."""


@check(
    "machine-check",
    needs=("kernel_log",),
    limits=Limits,
    source="Linux kernel: arch/x86/kernel/cpu/mce, drivers/edac, drivers/acpi/apei/ghes.c",
)
def machine_check(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Processors and main memory have reported no error since the last reboot.

    What it means: a machine check is the processor's own report of an error of a core, a cache,
    a bus or the memory; EDAC names the memory controller and the DIMM. An uncorrected one has
    lost data: the program that used it was killed, or will be.

    What we do: an uncorrected error fails the node until a reboot or an accepted state.
    Corrected errors are a warning: nothing was lost, but their rate tells of a DIMM that wears.

    What to do: drain the node, find the DIMM or processor in the line or in the BMC's event log,
    run the vendor's memory test, replace the part when the error returns.
    """
    groups: dict[tuple[str, bool], list[Event]] = {}
    for event in node.events("mce", "memory"):
        key = (event.subject or event.kind, is_uncorrected(event.message))
        groups.setdefault(key, []).append(event)
    for (subject, uncorrected), events in sorted(groups.items(), key=lambda i: not i[0][1]):
        count = sum(event.count for event in events)
        line = events[-1].message
        if uncorrected:
            yield fail(
                subject,
                f'uncorrected hardware error, {count} in this boot, last "{line[:120]}": drain, '
                "find the DIMM or processor in the BMC's event log and test it",
                measured=count,
                expected=0,
                action=Action.DRAIN,
            )
        elif count >= limits.corrected_warn:
            yield warn(
                subject,
                f'corrected hardware errors, {count} in this boot, last "{line[:120]}": nothing '
                "was lost; watch this part",
                measured=count,
                expected=limits.corrected_warn - 1,
                limit="corrected_warn",
            )
        else:
            yield info(subject, f"{count} corrected hardware errors in this boot", measured=count)


def is_uncorrected(message: str) -> bool:
    """Whether a line tells of an error that the hardware could not correct."""
    status = re.search(_STATUS, message)
    if status is not None:
        return bool(int(status[1], 16) & _UC)
    if "Corrected error" in message or "CMCI storm" in message:
        return False
    return re.search(_UNCORRECTED, message) is not None
