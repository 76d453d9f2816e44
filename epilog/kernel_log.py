"""A node's kernel log, given as a file, becomes facts of that node.

The lines are understood by the health check's own parser and judged by its own Xid rules; here
only the stamps of dmesg, journald and syslog are taken off, and a class is put on.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from epilog.kernel_classes import Reading, judge
from epilog.model import Evidence
from healthcheck.model import KernelEvent
from healthcheck.probes._kernel_lines import clean, understand

MAX_LINE = 4096
MAX_EVENTS = 4096
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_STAMPS = re.compile(
    rf"(?:<\d{{1,3}}>)?(?:kern *: *\w+ *: *)?"
    rf"(?:(?P<iso>{_ISO}):? )?"
    rf"(?:(?P<month>[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) )?"
    rf"(?:(?P<host>[\w.-]{{1,80}}):? )??"
    rf"(?:kernel: ?|kern: +\w+: )?"
    rf"(?:\[(?P<stamp>{_ISO}|[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d \d{{4}}"
    rf"| *\+?\d{{1,12}}\.\d{{1,9}})\]:? ?)?"
    rf"(?=NVRM: |nvidia-nvswitch|mce: |MCE: |\{{\d+\}}\[Hardware|\[Hardware|EDAC |Memory failure: "
    rf"|mlx5_core |nvidia-smi|Unable to determine|[\w-]{{1,32}} [0-9a-f]{{4,8}}:[0-9a-f:.]{{7}}: )"
)
_RECORD = re.compile(r"\d{1,10},\d{1,20},(\d{1,20}),[^;]{0,200};")
_NO_HANDLE = re.compile(
    r"Unable to determine the device handle for (?:GPU ?)?([0-9A-Fa-f:.]{7,16})"
)


def read_kernel_log(lines: Iterable[bytes], file: str, node: str, year: int = 0) -> list[Evidence]:
    """Facts of `node` from its kernel log.

    `year` completes syslog's dates, which have none; without it those lines have no time.
    """
    return _facts(_readings(lines, year), file, node)


def facts_of_events(
    events: Iterable[KernelEvent], node: str, booted_at: float, file: str = "kernel log"
) -> list[Evidence]:
    """Facts of `node` from what a probe read; `booted_at` (unix seconds) is uptime 0."""
    readings = (
        Reading(e.sequence, e.message, booted_at + e.uptime_s, e.kind, e.code, e.subject, e.message)
        for e in events
    )
    return _facts(readings, file, node)


def _facts(readings: Iterable[Reading], file: str, node: str) -> list[Evidence]:
    return [
        Evidence(
            file=file,
            line=told.line,
            role=told.role,
            klass=told.klass,
            text=told.text,
            signature=f"kernel-log {told.kind}",
            host=node,
            at=told.at,
            fields=told.fields,
            fact=True,
        )
        for told in judge(readings)
    ]


def _readings(lines: Iterable[bytes], year: int) -> Iterator[Reading]:
    count = 0
    for number, raw in enumerate(lines, 1):
        text = clean(raw[:MAX_LINE])
        found = _STAMPS.match(text) if ";" not in text[:64] else None
        body, at = text, None
        if found is not None:
            body, at = text[found.end() :], _time(found, year)
        elif record := _RECORD.match(text):
            body = text[record.end() :]
        handle = _NO_HANDLE.match(body)
        event = understand(body) if handle is None else None
        if handle is not None:
            yield Reading(number, body, at, "no-handle", None, handle[1].lower().rstrip(":."))
        elif event is not None:
            yield Reading(number, body, at, event.kind, event.code, event.subject, event.message)
        else:
            continue
        count += 1
        if count >= MAX_EVENTS:
            return


def _time(found: "re.Match[str]", year: int) -> float | None:
    iso = found["iso"] or found["stamp"] or ""
    try:
        if iso[:4].isdecimal() and "-" in iso:
            short = re.sub(r"([.,]\d{6})\d+", r"\1", iso).replace(",", ".")
            return _utc(datetime.fromisoformat(short))
        if iso[:3].isalpha():
            return _utc(datetime.strptime(iso, "%a %b %d %H:%M:%S %Y"))
        if found["month"] and year:
            stamp = f"{year} {found['month'].partition('.')[0]}"
            return _utc(datetime.strptime(stamp, "%Y %b %d %H:%M:%S"))
    except ValueError:
        pass
    return None


def _utc(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
