"""Bus bandwidth over message size as a picture. Needs matplotlib (the extra `plot`)."""

from collections.abc import Mapping
from importlib.util import find_spec

from healthcheck.allreduce.model import AllreduceResult, BusBandwidth
from healthcheck.allreduce.sizes import show_size

FORMS = (".png", ".svg")


def cannot_plot(path: str) -> str | None:
    """Why no plot can be written there, or None; asked before the test, not after it."""
    if not path.endswith(FORMS):
        return f"expected a name that ends in {' or '.join(FORMS)}, found {path!r}"
    if find_spec("matplotlib") is None:
        return "matplotlib is not installed; install flightcheck[plot]"
    return None


def save_plot(result: AllreduceResult, path: str, reference: Mapping[int, float]) -> None:
    """Write the plot. `reference`: GB/s by bytes, drawn dashed. Raises OSError as open does."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _line(axes, result.bandwidth, "measured (median)", "o-")
    for run in result.paths:
        _line(axes, run.bandwidth, run.path + ("" if run.confirmed else " (not confirmed)"), "s:")
    usual = [(p.bytes, p.usual_gb_s) for p in result.bandwidth if p.usual_gb_s]
    if usual:
        axes.plot(*zip(*usual, strict=True), "x--", label="usual on this node")
    if reference:
        axes.plot(*zip(*sorted(reference.items()), strict=True), "k--", label="reference")
    sizes = sorted({point.bytes for point in result.bandwidth} | set(reference))
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [show_size(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set(xlabel="message size", ylabel="bus bandwidth, GB/s")
    axes.set_title(f"all_reduce over {result.ranks} ranks ({result.backend})")
    axes.grid(alpha=0.3)
    if axes.has_data():
        axes.legend()
    figure.savefig(path, dpi=150)


def _line(axes: object, points: tuple[BusBandwidth, ...], label: str, style: str) -> None:
    if points:
        xs, ys = [p.bytes for p in points], [p.busbw_gb_s for p in points]
        axes.plot(xs, ys, style, label=label)  # type: ignore[attr-defined]
