"""A drill's tables: stage by stage, subject by subject, and all that was not right. Pure."""

from collections.abc import Callable, Sequence
from statistics import median

from slurm_integration.drill.model import End, Played

HEAD = ("faults", "found", "missed", "must pass", "false", "not here", "median s", "slowest s")


def tables(played: Sequence[Played]) -> list[str]:
    """By stage, by subject, what a stage does not see and why, and each case that went wrong."""
    lines = _table("stage", played, lambda one: one.case.stage)
    lines += ["", *_table("subject", played, lambda one: one.subject)]
    away = [one for one in played if one.end is End.NOT_HERE]
    if away:
        told: dict[str, set[str]] = {}
        for one in away:
            told.setdefault(f"{one.case.stage}: {one.why}", set()).add(one.case.fault or "")
        lines += ["", "Not looked for, by design:"]
        lines += [f"  {why} ({', '.join(sorted(names))})" for why, names in sorted(told.items())]
    bad = [one for one in played if not one.good]
    lines.append("")
    if bad:
        lines.append(f"{len(bad)} of {len(played)} cases went wrong:")
        lines += [f"  {words(one)}" for one in bad]
    else:
        types = len({one.case.type for one in played})
        lines.append(f"all {len(played)} cases on {types} node types went right")
    return lines


def words(one: Played) -> str:
    """One case in a line."""
    case = one.case
    told = "; ".join(filter(None, (one.wrong, one.why)))
    check = f" [{one.check}]" if one.check else ""
    return (
        f"{case.fault or 'healthy'} on {case.type} at {case.stage}{check}: {one.end.value}"
        f"{f': {told}' if told else ''} (verdict {one.verdict}, {one.decision}, "
        f"{one.seconds:.2f} s)"
    )


def _table(name: str, played: Sequence[Played], key: Callable[[Played], str]) -> list[str]:
    groups: dict[str, list[Played]] = {}
    for one in played:
        groups.setdefault(key(one), []).append(one)
    rows = [(name, *HEAD), *(_row(group, groups[group]) for group in groups)]
    if len(groups) > 1:
        rows.append(_row("all", played))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [f"{row[0]:<{widths[0]}}"]
            + [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    ]


def _row(name: str, played: Sequence[Played]) -> tuple[str, ...]:
    count = {end: sum(one.end is end for one in played) for end in End}
    seconds = [one.seconds for one in played]
    return (
        name,
        str(sum(one.check is not None for one in played)),
        str(count[End.FOUND]),
        str(count[End.MISSED]),
        str(sum(one.check is None for one in played)),
        str(count[End.FALSE]),
        str(count[End.NOT_HERE]),
        f"{median(seconds):.2f}",
        f"{max(seconds):.2f}",
    )
