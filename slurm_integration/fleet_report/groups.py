"""Equal answers gathered: forty nodes with the same trouble are one line. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from healthcheck.model import Action, Severity
from slurm_integration.fleet_report.commands import (
    ANSWERS,
    REMEDIES,
    Command,
    explain,
    filled,
    fold,
    strongest,
)
from slurm_integration.fleet_report.reading import Reading, Standing

MAX_GROUPS = 150
"""A fleet with more kinds of trouble than this is read through the table."""
_ORDER = list(Standing)


class Line(msgspec.Struct, frozen=True):
    """One check of a group. `alike` False: the message is one node's, the others differ."""

    check: str
    severity: str
    message: str
    measured: str
    expected: str
    action: Action
    alike: bool


class Group(msgspec.Struct, frozen=True):
    """Nodes that gave the same answer: same standing, same checks, same severities and remedies."""

    standing: Standing
    title: str
    nodes: tuple[str, ...]
    folded: str
    lines: tuple[Line, ...]
    action: Action
    commands: tuple[Command, ...]


def gather(readings: Sequence[Reading]) -> tuple[list[Group], int]:
    """The groups, most urgent and largest first, and how many were left out of MAX_GROUPS."""
    buckets: dict[object, list[Reading]] = {}
    for reading in readings:
        buckets.setdefault(_key(reading), []).append(reading)
    ordered = sorted(
        buckets.values(), key=lambda bucket: (_ORDER.index(bucket[0].standing), -len(bucket))
    )
    return [_group(bucket) for bucket in ordered[:MAX_GROUPS]], max(0, len(ordered) - MAX_GROUPS)


def _key(reading: Reading) -> object:
    if reading.standing is Standing.SILENT:
        return reading.answer
    judging = {(f.check, f.severity, f.action) for f in reading.findings if f.severity != "info"}
    blind = {(b.check, b.ending) for b in reading.blind}
    return (reading.standing, frozenset(judging), frozenset(blind))


def _group(bucket: list[Reading]) -> Group:
    first, names = bucket[0], [reading.name for reading in bucket]
    lines = _lines(bucket)
    judging = [f for f in first.findings if f.severity is not Severity.INFO]
    action = strongest(f.action for f in judging)
    if first.standing is Standing.SILENT:
        title = first.answer.value
        commands = list(ANSWERS[first.answer])
    elif first.standing is Standing.GO:
        title, commands = "go", []
    else:
        checks = list(dict.fromkeys([line.check for line in lines]))
        more = f" and {len(checks) - 3} more" if len(checks) > 3 else ""
        title = ", ".join(checks[:3]) + more if checks else first.standing.value
        commands = [*explain(checks), *REMEDIES[action]]
    return Group(
        standing=first.standing,
        title=title,
        nodes=tuple(names),
        folded=fold(names),
        lines=lines,
        action=action,
        commands=tuple(filled(commands, names)),
    )


def _lines(bucket: list[Reading]) -> tuple[Line, ...]:
    first = bucket[0]
    if first.standing is Standing.SILENT:
        details = {reading.detail for reading in bucket}
        text = first.detail or first.answer.value
        return (Line("", "", text, "", "", Action.NONE, len(details) == 1),)
    lines: dict[tuple[str, str], Line] = {}
    for found in first.findings:
        key = (found.check, found.severity.value)
        if found.severity is Severity.INFO or key in lines:
            continue
        alike = all(_same(reading, found.check, found.message) for reading in bucket[1:])
        lines[key] = Line(
            found.check,
            found.severity.value,
            _with_subject(found.subject, found.message),
            found.measured,
            found.expected,
            found.action,
            alike,
        )
    told = [
        Line(one.check, one.ending.value, one.reason, "", "", Action.NONE, True)
        for one in first.blind
    ]
    return (*lines.values(), *told)


def _same(reading: Reading, check: str, message: str) -> bool:
    return any(f.check == check and f.message == message for f in reading.findings)


def _with_subject(subject: str, message: str) -> str:
    return f"{subject}: {message}" if subject and subject not in message else message


def count(readings: Iterable[Reading]) -> dict[Standing, int]:
    """How many nodes stand where, in the order of urgency; zeros included."""
    counted = dict.fromkeys(Standing, 0)
    for reading in readings:
        counted[reading.standing] += 1
    return counted
