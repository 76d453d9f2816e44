"""The kernel's log: Xids, machine checks, NIC and PCIe trouble since the last reading.

/dev/kmsg gives one record a read (`6,339,5140900,-;NVRM: Xid …`, then ` KEY=value` lines). Nearly
all of them mean nothing to us, so one anchored match decides which are looked at further.
Only the kernel's own records count: a user can write to /dev/kmsg too, and the kernel then marks
the record with another facility than 0 (Documentation/ABI/testing/dev-kmsg).
"""

import re
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from healthcheck.model import KernelLog

if TYPE_CHECKING:
    from healthcheck.probes._kernel_lines import Lines
    from healthcheck.reading import Ask

DEVICE = "/dev/kmsg"
RESTRICT = "/proc/sys/kernel/dmesg_restrict"
MAX_READ_BEFORE = 2048
"""Lines kept of those that an earlier reading has seen, in case the log has begun anew."""

# Anchored at the start of the text: a user can name a process, a mount or a USB stick, but never
# choose how a kernel line begins.
_CANDIDATE = re.compile(
    rb"(\d{1,10}),(\d{1,18}),(\d{1,18}),[^;\n]{0,200};"
    rb"((?:NVRM: |nvidia-nvswitch|mce: |\{\d{1,10}\}\[Hardware|\[Hardware|EDAC |MCE: "
    rb"|Memory failure: |mlx5_core |pcieport "
    rb"|[\w-]{1,32} [0-9a-f]{4,8}:[0-9a-f:.]{7}: (?:AER: |PCIe Bus Error|DPC: ))"
    rb"[^\n]{0,1000})"
)
_HEADER = re.compile(rb"\d{1,10},(\d{1,18}),\d{1,18},")


def read(ask: "Ask") -> dict[str, Any]:
    """The kernel log since the plan's sequence number.

    PermissionError says whether kernel.dmesg_restrict is what forbids it; FileNotFoundError
    where there is no /dev/kmsg (a container).
    """
    ask.progress.note("read", DEVICE)
    since = ask.plan.kernel_log_since
    try:
        return {"kernel_log": parse_kernel_log(ask.host.kernel_records(since), since)}
    except PermissionError as error:
        raise PermissionError(
            error.errno, f"permission denied{_restricted(ask)}; run as root", DEVICE
        ) from error


def _restricted(ask: "Ask") -> str:
    try:
        value = ask.host.read_text(RESTRICT, 64)
    except OSError:
        return ""
    return f" (kernel.dmesg_restrict = {value})" if value.isdecimal() and len(value) < 8 else ""


def parse_kernel_log(records: Iterable[bytes], since: int = 0) -> KernelLog:
    """What the records from `since` on have to say.

    `records` are those of the whole ring buffer, oldest first, or its lines with the
    continuation lines apart. Where all of them are older than `since`, the log has begun anew
    and what is left of it is read from its start.
    """
    first = last = b""
    read_before: deque[re.Match[bytes]] = deque(maxlen=MAX_READ_BEFORE)
    lines = None
    candidate = _CANDIDATE.match
    for record in records:
        if record[:1] == b" ":
            continue
        first = first or record
        last = record
        found = candidate(record)
        if found is None:
            continue
        if int(found[2]) < since:
            read_before.append(found)
            continue
        if lines is None:
            lines = _lines()
        lines.add(found)
    begin, end = _sequence(first), _sequence(last)
    anew = end is not None and end + 1 < since
    if (anew and read_before) or lines is not None:
        lines = lines or _lines()
        for found in read_before:
            (lines.add if anew else lines.learn)(found)
    if end is None:
        return KernelLog(next_sequence=since, events=lines.events() if lines else ())
    return KernelLog(
        next_sequence=end + 1 if anew else max(since, end + 1),
        events=lines.events() if lines else (),
        lost_records=begin - since if begin is not None and 0 < since < begin else 0,
    )


def _lines() -> "Lines":
    """Loaded only where a line may matter, for its twenty patterns take 5 ms to compile."""
    from healthcheck.probes._kernel_lines import Lines

    return Lines()


def _sequence(record: bytes) -> int | None:
    found = _HEADER.match(record)
    return int(found[1]) if found else None
