"""How a figure spreads over a fleet, as the geometry of a small SVG. Pure.

A histogram shows the many, dots the few beyond the bounds: 10,000 nodes cost as much as 100.
"""

import math
from collections.abc import Sequence

import msgspec

from healthcheck.report.clean import clean
from slurm_integration.sweep.compare.outliers import FIGURES
from slurm_integration.sweep.model import Metric

WIDTH, HEIGHT, BASE = 320.0, 84.0, 64.0
"""The drawing's size and the y of its axis, in SVG units."""
BINS = 40
MAX_DOTS = 60
MAX_PLOTS = 24
_PAD = 6.0


class Bar(msgspec.Struct, frozen=True):
    """One bin of the histogram; `outside` where its middle lies beyond a bound."""

    x: float
    y: float
    width: float
    height: float
    outside: bool


class Dot(msgspec.Struct, frozen=True):
    """One node beyond the bounds."""

    x: float
    y: float
    node: str
    label: str


class Plot(msgspec.Struct, frozen=True):
    """One metric of one group of nodes. `band`: x of the bounds, None where open."""

    name: str
    unit: str
    group: str
    count: int
    outliers: int
    shown: tuple[Dot, ...]
    bars: tuple[Bar, ...]
    median_x: float
    band: tuple[float | None, float | None]
    low_label: str
    high_label: str
    median_label: str
    summary: str


def plots(metrics: Sequence[Metric]) -> tuple[list[Plot], int]:
    """A plot of each metric, those with most outliers first, and how many were left out.

    A figure that a single node gave has nothing to be compared with.
    """
    drawn = [plot for metric in metrics if (plot := draw(metric)) and plot.count > 1]
    drawn.sort(key=lambda plot: -plot.outliers)
    return drawn[:MAX_PLOTS], max(0, len(drawn) - MAX_PLOTS)


def draw(metric: Metric) -> Plot | None:
    """The geometry of one metric; None where no node has a finite figure."""
    values = {node: value for node, value in metric.values.items() if math.isfinite(value)}
    if not values:
        return None
    ends = [*values.values(), metric.median, *_finite(metric.low), *_finite(metric.high)]
    ends = [end for end in ends if math.isfinite(end)]
    scale = _Scale(min(ends), max(ends))
    beyond = {node: value for node, value in values.items() if outside(metric, value)}
    unit = clean(metric.unit, 20)
    worst = sorted(beyond, key=lambda node: -abs(beyond[node] - metric.median))[:MAX_DOTS]
    dots = [_dot(node, beyond[node], place, scale, unit) for place, node in enumerate(worst)]
    name = title_of(metric)
    return Plot(
        name=name,
        unit=unit,
        group=clean(metric.group, 80),
        count=len(values),
        outliers=len(beyond),
        shown=tuple(dots),
        bars=tuple(_bars(metric, list(values.values()), scale)),
        median_x=scale.x(metric.median),
        band=(_edge(metric.low, scale), _edge(metric.high, scale)),
        low_label=figure(scale.low),
        high_label=figure(scale.high),
        median_label=figure(metric.median),
        summary=(
            f"{name}: median {figure(metric.median)} {unit} over {len(values)} nodes, "
            f"{len(beyond)} beyond the bounds"
        ),
    )


def title_of(metric: Metric) -> str:
    """The figure's name as people say it."""
    known = FIGURES.get(metric.name)
    return known.title if known else clean(metric.name, 80)


def outside(metric: Metric, value: float) -> bool:
    """Whether a figure lies beyond the metric's bounds."""
    low = metric.low is not None and value < metric.low
    return low or (metric.high is not None and value > metric.high)


def figure(value: float) -> str:
    """Four significant digits, no exponent where a person would write none."""
    if not math.isfinite(value):
        return "?"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


class _Scale:
    """Figures to x; a scale whose ends meet is opened, so that one value stands in the middle."""

    def __init__(self, low: float, high: float) -> None:
        if high <= low:
            step = abs(low) * 0.05 or 1.0
            low, high = low - step, high + step
        self.low, self.high = low, high

    def x(self, value: float) -> float:
        span = self.high - self.low
        if not math.isfinite(value) or not math.isfinite(span):
            return _PAD
        share = min(max((value - self.low) / span, 0.0), 1.0)
        return round(_PAD + share * (WIDTH - 2 * _PAD), 1)

    def bin(self, value: float) -> int:
        share = (self.x(value) - _PAD) / (WIDTH - 2 * _PAD)
        return min(int(share * BINS), BINS - 1)


def _bars(metric: Metric, values: list[float], scale: _Scale) -> list[Bar]:
    counts = [0] * BINS
    for value in values:
        counts[scale.bin(value)] += 1
    width = (WIDTH - 2 * _PAD) / BINS
    tallest = math.sqrt(max(counts))
    bars = []
    for place, number in enumerate(counts):
        if not number:
            continue
        # The square root lets a bin of three be seen beside one of three thousand.
        height = round(max(2.0, math.sqrt(number) / tallest * (BASE - 26)), 1)
        middle = scale.low + (place + 0.5) / BINS * (scale.high - scale.low)
        x = round(_PAD + place * width, 1)
        bars.append(Bar(x, BASE - height, round(width - 1, 1), height, outside(metric, middle)))
    return bars


def _dot(node: str, value: float, place: int, scale: _Scale, unit: str) -> Dot:
    # Three rows, so that dots near each other do not hide one another.
    label = f"{clean(node, 120)}: {figure(value)} {unit}".strip()
    return Dot(scale.x(value), 8.0 + place % 3 * 7, clean(node, 120), label)


def _edge(bound: float | None, scale: _Scale) -> float | None:
    return None if bound is None or not math.isfinite(bound) else scale.x(bound)


def _finite(bound: float | None) -> list[float]:
    return [] if bound is None else [bound]
