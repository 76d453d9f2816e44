"""The result as a table for people and as JSON for programs."""

import msgspec

from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, BusBandwidth
from healthcheck.allreduce.sizes import show_size
from healthcheck.model import Report
from healthcheck.report.clean import clean

HEAD = ("message", "busbw", "fastest", "algbw", "time", "usual", "slowest rank")
UNITS = ("", "GB/s", "GB/s", "GB/s", "ms", "GB/s", "")


class AllreduceReport(msgspec.Struct, frozen=True):
    """What `flightcheck allreduce --json` prints: the judgement and the facts it rests on."""

    verdict: str
    report: Report
    result: AllreduceResult


def to_json(report: Report, result: AllreduceResult) -> str:
    """One line."""
    return msgspec.json.encode(AllreduceReport(report.verdict.value, report, result)).decode()


def to_table(result: AllreduceResult) -> str:
    """What was tested, how it ended, and the bandwidth by message size."""
    lines = [_headline(result)]
    if result.nodes and len(set(result.nodes)) > 1:
        lines.append(f"  nodes: {', '.join(dict.fromkeys(map(clean, result.nodes)))}")
    if result.reason:
        where = f" in {result.phase!r}" if result.phase else ""
        lines.append(f"  {result.end.value}{where}: {clean(result.reason)}")
    if result.cases:
        lines.append(f"  compared bit by bit: {', '.join(result.cases)}")
    lines += [f"  left out: {clean(text)}" for text in result.skipped]
    if result.bandwidth:
        lines += ["", *_rows(result.bandwidth)]
    for path in result.paths:
        state = "confirmed" if path.confirmed else "NOT CONFIRMED"
        lines += ["", f"  path {path.path}: {path.end.value}, {state}: {clean(path.evidence)}"]
        lines += _rows(path.bandwidth) if path.bandwidth else []
    if result.end is not AllreduceEnd.OK:
        lines += [f"  log: {clean(line)}" for line in result.log[-6:]]
    return "\n".join(lines)


def _headline(result: AllreduceResult) -> str:
    gpus = {member.gpu for member in result.members if member.gpu}
    what = f"{result.ranks} × {clean(gpus.pop())}" if len(gpus) == 1 else f"{result.ranks} ranks"
    versions = [f"torch {result.torch}"] if result.torch else []
    versions += [f"NCCL {result.nccl}"] if result.nccl else []
    return (
        f"all_reduce over {what}, {result.backend}, {result.depth}: {result.end.value} in "
        f"{result.duration_s:.1f} s ({', '.join([*versions, f'seed {result.seed}'])})"
    )


def _rows(points: tuple[BusBandwidth, ...]) -> list[str]:
    rows = [HEAD, UNITS, *(_row(point) for point in points)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return [
        "  "
        + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _row(point: BusBandwidth) -> tuple[str, ...]:
    late = point.late_s
    slowest = f"{point.slowest_rank} (+{late * 1e3:.1f} ms)" if late is not None else "–"
    return (
        show_size(point.bytes),
        f"{point.busbw_gb_s:.4g}",
        f"{point.fastest_busbw_gb_s:.4g}",
        f"{point.bytes / point.median_s / 1e9:.4g}",
        f"{point.median_s * 1e3:.4g}",
        f"{point.usual_gb_s:.4g}" if point.usual_gb_s else "–",
        slowest,
    )
