"""The page's data: one compact JSON block that its script reads. Pure.

Columns instead of records and every text once: a fleet repeats itself, and 10,000 nodes must
stay a small page.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from healthcheck.report.clean import clean
from slurm_integration.fleet_report.commands import ANSWERS, REMEDIES
from slurm_integration.fleet_report.plots import title_of
from slurm_integration.fleet_report.reading import Blind, Reading, Standing, Told
from slurm_integration.sweep.model import Metric

BUDGET = 3_500_000
"""Bytes about findings; beyond it a node's findings keep their check, severity and remedy alone."""
MAX_METRICS = 80
_ROW_BYTES = 44
"""Eight numbers of up to five digits."""
_CUT = "not kept in this page, which would be too large: see the sweep's JSON"
_STANDINGS = list(Standing)


class _Texts:
    """Every text once; a reference is its number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._places: dict[str, int] = {}
        self.size = 0

    def add(self, text: str) -> int:
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.all)
            self.all.append(text)
            self.size += len(text.encode()) + 3
        return place


class _Rows:
    """Every distinct row once, as `_Texts` does with text."""

    def __init__(self) -> None:
        self.all: list[tuple[int, ...]] = []
        self._places: dict[tuple[int, ...], int] = {}

    def add(self, row: tuple[int, ...]) -> int:
        place = self._places.setdefault(row, len(self.all))
        if place == len(self.all):
            self.all.append(row)
        return place


def payload(readings: Sequence[Reading], metrics: Sequence[Metric]) -> dict[str, Any]:
    """Plain data for the script; the nodes keep their order."""
    texts, rows = _Texts(), _Rows()
    findings: dict[int, list[int]] = {}
    blind: dict[int, list[tuple[int, ...]]] = {}
    details: dict[int, int] = {}

    def room() -> bool:
        return texts.size + _ROW_BYTES * len(rows.all) < BUDGET

    # The sickest first, so that the budget is spent on them.
    by_urgency = sorted(
        range(len(readings)), key=lambda at: _STANDINGS.index(readings[at].standing)
    )
    for at in by_urgency:
        reading = readings[at]
        if reading.findings:
            told = [rows.add(_row(found, texts, full=room())) for found in reading.findings]
            findings[at] = list(dict.fromkeys(told))
        if reading.blind and room():
            blind[at] = [_blind(one, texts) for one in reading.blind]
        if reading.detail and room():
            details[at] = texts.add(reading.detail)
    return {
        "names": [reading.name for reading in readings],
        "standing": "".join(str(_STANDINGS.index(reading.standing)) for reading in readings),
        "standings": [standing.value for standing in _STANDINGS],
        "answer": _column((reading.answer.value for reading in readings), texts),
        "profile": _column((reading.profile for reading in readings), texts),
        "rack": _column((reading.rack for reading in readings), texts),
        "state": _column((reading.state for reading in readings), texts),
        "transport": _column((reading.transport for reading in readings), texts),
        "seconds": [reading.seconds for reading in readings],
        "detail": details,
        "findings": findings,
        "rows": rows.all,
        "more": {at: reading.more for at, reading in enumerate(readings) if reading.more},
        "blind": blind,
        "metrics": [_metric(metric, readings) for metric in metrics[:MAX_METRICS]],
        "remedies": {action.value: _lines(lines) for action, lines in REMEDIES.items()},
        "answers": {answer.value: _lines(lines) for answer, lines in ANSWERS.items()},
        "texts": texts.all,
    }


def _row(found: Told, texts: _Texts, *, full: bool) -> tuple[int, ...]:
    """check, severity, remedy, subject, message, measured, expected, source."""
    words = (
        (found.subject, found.message, found.measured, found.expected, found.source)
        if full
        else ("", _CUT, "", "", "")
    )
    head = (found.check, found.severity.value, found.action.value)
    return tuple(texts.add(word) for word in (*head, *words))


def _blind(one: Blind, texts: _Texts) -> tuple[int, ...]:
    return tuple(texts.add(word) for word in (one.check, one.ending.value, one.reason))


def _column(words: Iterable[str], texts: _Texts) -> list[int]:
    return [texts.add(word) for word in words]


def _lines(commands: Iterable[Any]) -> list[tuple[str, str]]:
    return [(command.why, command.line) for command in commands]


def _metric(metric: Metric, readings: Sequence[Reading]) -> dict[str, Any]:
    """`at` says which nodes the values are of, where they are not of all."""
    pairs = [
        (at, short)
        for at, reading in enumerate(readings)
        if (short := _short(metric.values.get(reading.name))) is not None
    ]
    return {
        "name": title_of(metric),
        "unit": clean(metric.unit, 20),
        "median": _short(metric.median),
        "low": _short(metric.low),
        "high": _short(metric.high),
        "at": None if len(pairs) == len(readings) else [at for at, _ in pairs],
        "values": [value for _, value in pairs],
    }


def _short(value: float | None) -> float | None:
    """Five significant digits: more than any plot shows."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def embed(data: dict[str, Any]) -> str:
    """The data as JSON that can stand inside a `<script>` element, whatever texts it holds.

    `<`, `>` and `&` only occur in strings there, so that their escapes mean the same; U+2028 and
    U+2029 end a line in older scripts.
    """
    text = msgspec.json.encode(data).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
