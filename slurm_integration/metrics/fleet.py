"""What a collect knows of the fleet, as metrics of the admin host. Pure."""

from collections.abc import Iterator

from slurm_integration.history.collect import Summary
from slurm_integration.history.lemons import Ranking
from slurm_integration.history.reliability import Statistics
from slurm_integration.metrics.textfile import Gauge
from slurm_integration.sweep.model import Answer

MAX_LEMONS = 50
MAX_CLASSES = 100


def fleet_gauges(
    summary: Summary, ranking: Ranking, statistics: Statistics, now: float
) -> Iterator[Gauge]:
    """Metrics of one collect: its answers, the lemons, failures by class and node type."""
    yield Gauge(
        "flightcheck_collect_nodes",
        "Nodes of the last collect by answer.",
        [({"answer": answer.value}, summary.answers.get(answer.value, 0)) for answer in Answer],
    )
    yield Gauge(
        "flightcheck_collect_events", "New events of the last collect.", [({}, summary.new)]
    )
    if not summary.interrupted:
        yield Gauge(
            "flightcheck_collect_last_success_timestamp_seconds",
            "When a collect last came to its end, in unix time.",
            [({}, round(now, 3))],
        )
    yield Gauge("flightcheck_lemons", "Nodes that are called lemons.", [({}, ranking.lemons)])
    yield Gauge(
        "flightcheck_lemon_score",
        "Score of each lemon: -log10 of the chance of a node like the others to look like this.",
        [
            ({"node": one.signals.node}, one.score)
            for one in [lemon for lemon in ranking.worst if lemon.lemon][:MAX_LEMONS]
        ],
    )
    yield Gauge(
        "flightcheck_fleet_failures",
        "Failures charged to nodes in the last 30 days, by class and node type.",
        [
            ({"profile": line.profile, "class": line.klass}, line.mtbf.failures)
            for line in statistics.lines[:MAX_CLASSES]
        ],
    )
    yield Gauge(
        "flightcheck_fleet_mtbf_seconds",
        "Mean time between failed jobs of one node over the last 30 days, by node type.",
        [
            ({"profile": line.profile}, round(line.mtbf.mean * 3600))
            for line in statistics.lines[:MAX_CLASSES]
            if line.klass == "all jobs" and line.mtbf.mean is not None
        ],
    )
