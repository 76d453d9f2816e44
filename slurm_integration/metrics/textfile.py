"""The Prometheus text format, as little of it as gauges need, and its atomic file.

Names and labels are ours and fixed; values of labels are escaped. A series' number is bounded by
whoever makes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from healthcheck.whole_file import write_whole

MAX_LABEL = 120
"""Characters of a label's value."""


class Gauge(NamedTuple):
    """One metric: `samples` are (labels, value) pairs."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def render(gauges: Iterable[Gauge]) -> str:
    """The exposition text. A gauge without a sample is left out."""
    lines = []
    for gauge in gauges:
        if not gauge.samples:
            continue
        lines.append(f"# HELP {gauge.name} {gauge.help}")
        lines.append(f"# TYPE {gauge.name} gauge")
        for labels, value in gauge.samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(
                f"{gauge.name}{{{inside}}} {value!r}" if inside else f"{gauge.name} {value!r}"
            )
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text[:MAX_LABEL]
    kept = "".join(char if char.isprintable() else "?" for char in text[:MAX_LABEL])
    return kept.replace("\\", "\\\\").replace('"', '\\"')


def write(folder: str, name: str, text: str) -> str | None:
    """Replace `folder/flightcheck_NAME.prom` as a whole; a note where that failed.

    The folder must be there: it is node_exporter's, and a typo must not make another. Readable by
    all, since node_exporter is not root. node_exporter reads files that end in .prom alone, so a
    draft left by a crash is never read.
    """
    path = f"{folder}/flightcheck_{name}.prom"
    try:
        write_whole(path, text.encode("utf-8", "replace"), mode=0o644)
    except OSError as error:
        return f"metrics_dir: {path}: {error.strerror}; no metrics were written"
    return None
