"""The history as text that fits a terminal of 80 columns. Pure."""

import time
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from healthcheck.node_event import NodeEvent
from healthcheck.report.clean import clean
from slurm_integration.history.lemons import Ranking
from slurm_integration.history.rates import Mtbf
from slurm_integration.history.reliability import Statistics
from slurm_integration.sweep.nodeset import fold

if TYPE_CHECKING:  # a node shows its own log without a database's library
    from slurm_integration.history.collect import Summary

WIDTH = 80


def history_text(node: str, events: Sequence[NodeEvent], limit: int) -> str:
    """A node's events, the newest last, as a log is read."""
    if not events:
        return f"{node}: nothing is known in this time"
    lines = []
    for event in reversed(events):
        head = f"{when(event.at)}  {event.kind:<11} "
        body = wrap(_what(event), WIDTH - len(head), break_long_words=True) or [""]
        lines.append(head + body[0])
        lines += [" " * len(head) + more for more in body[1:]]
    if len(events) == limit:
        lines.append(f"the last {limit} events; -n shows more")
    return "\n".join(lines)


def when(at: float) -> str:
    """`2026-11-30 14:03` in UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


def _what(event: NodeEvent) -> str:
    """One event in words."""
    job = f" [job {event.job_id}]" if event.job_id is not None else ""
    message = clean(event.message or "")
    subject = clean(event.subject or "")
    where = f"{subject}: " if subject and subject not in message else ""
    times = f" ({event.count} times)" if event.count > 1 else ""
    match event.kind:
        case "verdict":
            return f"{event.before or 'first seen'} → {event.verdict} ({event.stage}){job}"
        case "finding":
            return f"{event.severity} {event.check} {where}{message}{job}"
        case "cleared":
            return f"{event.check} {subject}"
        case "job-failure":
            part = "began here" if event.root else "cause not placed"
            return f"{event.klass}, {part}, {event.nodes or '?'} nodes{job} {message}"
        case "excluded":
            return f"by a job of uid {event.uid}{job}"
        case "xid" | "sxid":
            return f"{event.code} {where}{message}{times}{job}"
    return f"{event.outcome or ''} {where}{message}{times}{job}".strip()


def lemons_text(ranking: Ranking) -> str:
    """The worst nodes, and which share of the trouble they cause."""
    lines = [
        f"{'NODE':<16} {'SCORE':>5} {'USERS':>5} {'XID':>5} {'OUT':>5} {'MULTI':>5} "
        f"{'SINGLE':>6} {'FAIL/30D':>8}  WHICH XIDS"
    ]
    for one in ranking.worst:
        seen = one.signals
        xids = ",".join(str(code) for code in one.xids[:4]) + (",…" if len(one.xids) > 4 else "")
        lines.append(
            f"{'*' if one.lemon else ' '}{clean(seen.node, 40):<15} {one.score:>5.1f} "
            f"{seen.excluded:>5} {seen.xid:>5} {seen.out:>5} {seen.multi:>5} {seen.single:>6} "
            f"{seen.failures_per_30_days:>8.1f}  {xids}".rstrip()
        )
        if one.lemon:
            text = "; ".join(one.why)
            lines += [f"    {line}" for line in wrap(text, WIDTH - 4)]
    if not ranking.worst:
        lines = [f"No node stands out: nothing was held against any in {ranking.days:.0f} days."]
    lines.append("")
    nodes = f"{ranking.nodes} nodes, {ranking.days:.0f} days"
    if ranking.share is not None:
        part = 100 * ranking.top / ranking.nodes
        lines += wrap(
            f"The {ranking.top} nodes with most failed jobs ({part:.1f} % of the fleet) "
            f"began {ranking.top_failures} of {ranking.failures} that nodes began "
            f"({100 * ranking.share:.0f} %). {nodes}.",
            WIDTH,
        )
    else:
        lines.append(f"No failed job was charged to a node. {nodes}.")
    lines += wrap(
        f"* {ranking.lemons} lemons: nodes like the others would not look like this. USERS exclude "
        "it, XID days with hardware Xids, OUT times out of service, MULTI and SINGLE: failed jobs "
        "on several nodes and on one that it began.",
        WIDTH,
    )
    return "\n".join(lines)


def stats_text(statistics: Statistics, job_nodes: int) -> str:
    """Mean time between failures with its limits, by node type."""
    lines = []
    for kind in statistics.types:
        lines.append(
            f"{clean(kind.profile, 40)}: {kind.nodes} nodes, {kind.hours / 24:,.0f} node-days"
        )
        lines.append(f"  {'':<34} {'COUNT':>6} {'NODES':>5}  MEAN TIME BETWEEN, A NODE")
        for line in statistics.lines:
            if line.profile != kind.profile:
                continue
            label = line.klass if len(line.klass) <= 34 else line.klass[:33] + "…"
            lines.append(
                f"  {label:<34} {line.mtbf.failures:>6} {line.nodes:>5}  {_span(line.mtbf, 1)}"
            )
            if line.klass == "all jobs" and job_nodes > 1:
                label = f"a job on {job_nodes} nodes"
                lines.append(f"  {label:<34} {'':>6} {'':>5}  {_span(line.mtbf, job_nodes)}")
        lines.append("")
    lines.append(
        f"{statistics.failed_jobs} failed jobs of any cause in {statistics.days:.0f} days. "
        "In brackets: 95 % limits."
    )
    return "\n".join(lines)


def _span(one: Mtbf, share: int) -> str:
    if one.mean is None:
        return f"none seen (> {duration((one.low or 0) / share)})"
    high = duration(one.high / share) if one.high is not None else "…"
    return f"{duration(one.mean / share)} ({duration((one.low or 0) / share)} – {high})"


def duration(hours: float) -> str:
    """`5.2 h`, `12 d`, `3.1 y`."""
    for size, unit in ((24 * 365.25, "y"), (24.0, "d"), (1.0, "h")):
        if hours >= size * (2 if unit != "h" else 0):
            value = hours / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    return f"{hours:.1f} h"


def summary_text(summary: "Summary", seconds: float) -> str:
    """How a collect went: one line, and one for each way it failed."""
    reported = summary.answers.get("reported", 0)
    lines = [
        f"{reported} of {summary.nodes} nodes answered, {summary.new} new events "
        f"({summary.events - summary.new} known already) in {seconds:.1f} s"
    ]
    reasons: dict[str, list[str]] = {}
    for node, why in summary.failed:
        reasons.setdefault(why, []).append(node)
    for why, nodes in sorted(reasons.items(), key=lambda one: -len(one[1])):
        lines.append(f"{fold(nodes)}: {why}")
    if summary.lost:
        lines.append(
            f"{fold(summary.lost)}: events were pushed out of the node's log before they were "
            "fetched: collect more often"
        )
    if summary.broken:
        lines.append(f"{summary.broken} damaged lines in nodes' logs were left out")
    if summary.refused:
        lines.append(f"{summary.refused} events made no sense and were left out")
    if summary.interrupted:
        lines.append("ended early: what had arrived is kept")
    return "\n".join(lines)
