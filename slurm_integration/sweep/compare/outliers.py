"""Nodes that differ from their peers by far: median and median absolute deviation. Pure.

A mean and a standard deviation are moved by the very outlier that is looked for; median and MAD
stand while fewer than half of the nodes are off (Hampel; Iglewicz & Hoaglin 1993). The MAD times
1.4826 estimates the standard deviation of a normal distribution. Where nearly all nodes are equal
it is 0 and any hair's breadth would stand out: each figure has a least deviation that matters.
"""

from collections.abc import Sequence
from statistics import median

import msgspec

from healthcheck.model import Severity
from slurm_integration.sweep.model import FleetFinding, Metric, NodeResult
from slurm_integration.sweep.routes import BUSY_STAGE

MIN_PEERS = 5
"""Fewer nodes have no meaningful middle."""
SIGMAS = 5.0
"""Of 10,000 healthy nodes with normal noise none is expected beyond."""
_TO_SIGMA = 1.4826


class Figure(msgspec.Struct, frozen=True):
    """How a figure of healthcheck.report.facts is judged.

    `floor` is the least deviation from the median that matters, in its unit; `share` the same as
    a part of the median. `low`, `high`: which side does harm.
    """

    title: str
    unit: str
    floor: float
    share: float = 0.0
    low: bool = False
    high: bool = True


FIGURES = {
    "gpu_temperature_c": Figure("hottest GPU", "°C", 12, 0.15),
    "gpu_memory_temperature_c": Figure("hottest GPU memory", "°C", 12, 0.15),
    "gpu_power_w": Figure("mean GPU power", "W", 40, 0.25, low=True),
    "nvlink_gb_s": Figure("NVLink bandwidth of the slowest GPU", "GB/s", 1, 0.02, True, False),
    "network_gbit_s": Figure("bandwidth of active network ports", "Gbit/s", 1, 0.02, True, False),
    "driver_answer_s": Figure("time the GPU driver took to answer", "s", 1, 1.0),
    "gpu_ecc_corrected_per_hour": Figure("corrected GPU memory errors", "/h", 20, 1.0),
    "pcie_replays_per_hour": Figure("PCIe replays", "/h", 60, 1.0),
    "pcie_corrected_per_hour": Figure("corrected PCIe errors", "/h", 60, 1.0),
    "nvlink_errors_per_hour": Figure("NVLink errors", "/h", 20, 1.0),
    "network_errors_per_hour": Figure("network port errors", "/h", 20, 1.0),
    "allreduce_gb_s": Figure("best all_reduce with another node", "GB/s", 1, 0.2, True, False),
    "memory_corrected_per_hour": Figure("corrected memory errors", "/h", 20, 1.0),
}


def outliers(results: Sequence[NodeResult]) -> tuple[list[FleetFinding], tuple[Metric, ...]]:
    """Findings about nodes far from their peers, and every figure for the plots.

    Peers are nodes of one type that were looked at alike: a node under a job is warmer than an
    idle one.
    """
    table: dict[tuple[str, str], dict[str, float]] = {}
    for result in results:
        figures = (result.facts or {}).get("figures", {})
        group = result.profile + (" under a job" if result.stage == BUSY_STAGE else "")
        for name, value in figures.items():
            if name in FIGURES:
                table.setdefault((group, name), {})[result.node] = float(value)
    findings: list[FleetFinding] = []
    metrics = []
    for (group, name), values in table.items():
        metric = measure(group, name, values)
        metrics.append(metric)
        findings += _judge(metric, FIGURES[name])
    return findings, tuple(metrics)


def measure(group: str, name: str, values: dict[str, float]) -> Metric:
    """Median, MAD and the bounds beyond which a node is an outlier."""
    figure = FIGURES[name]
    middle = median(values.values())
    mad = median(abs(value - middle) for value in values.values())
    reach = max(SIGMAS * _TO_SIGMA * mad, figure.floor, figure.share * abs(middle))
    judged = len(values) >= MIN_PEERS
    return Metric(
        name=name,
        unit=figure.unit,
        group=group,
        median=round(middle, 3),
        mad=round(mad, 3),
        low=round(middle - reach, 3) if judged and figure.low else None,
        high=round(middle + reach, 3) if judged and figure.high else None,
        values=values,
    )


def _judge(metric: Metric, figure: Figure) -> list[FleetFinding]:
    found = []
    for node, value in metric.values.items():
        if metric.high is not None and value > metric.high:
            bound, word = metric.high, "above"
        elif metric.low is not None and value < metric.low:
            bound, word = metric.low, "below"
        else:
            continue
        found.append(
            FleetFinding(
                "outlier",
                Severity.WARN,
                figure.title,
                metric.group,
                (node,),
                f"{figure.title} {value:g} {figure.unit}, {word} {bound:g}; "
                f"{len(metric.values)} {metric.group} nodes have {metric.median:g} "
                f"{figure.unit} in the middle",
                measured=value,
                expected=metric.median,
            )
        )
    return found
