"""The page: a sweep in, one HTML file out."""

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from healthcheck.report.clean import clean
from slurm_integration.fleet_report.commands import fold
from slurm_integration.fleet_report.groups import count, gather
from slurm_integration.fleet_report.payload import embed, payload
from slurm_integration.fleet_report.plots import BASE, HEIGHT, WIDTH, plots
from slurm_integration.fleet_report.reading import Reading, Standing, read_result
from slurm_integration.sweep.model import Sweep

SCRIPTS = ("model", "fold", "find", "table", "grid", "detail", "main")
"""The script's parts in their order; together they are one function's body."""
MAX_PLAIN_ROWS = 1000
"""Rows of the table that is there for browsers without script."""
_GLYPHS = {
    Standing.GO: "go",
    Standing.DEGRADED: "degraded",
    Standing.NO_GO: "no-go",
    Standing.UNKNOWN: "unknown",
    Standing.SILENT: "silent",
}


def render(sweep: Sweep, *, racks: Mapping[str, str] | None = None, title: str = "") -> str:
    """The sweep as one self-contained HTML page.

    `racks`: node → rack or leaf switch, for the grid and the filter; may lack nodes. `title`: of
    the cluster, say. Everything hosts said is shown as text, never as markup. Pure: the same
    sweep gives the same page.
    """
    known = racks or {}
    readings = [read_result(result, known.get(result.node, "")) for result in sweep.results]
    groups, groups_left = gather(readings)
    drawn, plots_left = plots(sweep.comparison.metrics)
    script, style = _script(), _part("report.css")
    counted = count(readings)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=clean(title or "Fleet report", 120),
            about=_about(sweep, len(readings)),
            sweep=sweep,
            counts=[(standing, _GLYPHS[standing], number) for standing, number in counted.items()],
            shares=_shares(counted),
            notices=_notices(sweep),
            findings=[_fleet(finding) for finding in sweep.comparison.findings],
            actions=[
                (clean(done.what, 40), fold(_names(done.nodes)), clean(done.reason, 400))
                for done in sweep.actions
            ],
            sick=[group for group in groups if group.standing is not Standing.GO],
            well=[group for group in groups if group.standing is Standing.GO],
            groups_left=groups_left,
            plain=_plain(readings),
            plain_left=max(
                0, sum(r.standing is not Standing.GO for r in readings) - MAX_PLAIN_ROWS
            ),
            plots=drawn,
            plots_left=plots_left,
            box=(WIDTH, HEIGHT, BASE),
            glyphs=_GLYPHS,
            data=Markup(embed(payload(readings, sweep.comparison.metrics))),  # noqa: S704 - escaped
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


def _about(sweep: Sweep, nodes: int) -> list[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(max(0.0, sweep.started_at)))
    about = [when, f"{nodes:,} node{'s' * (nodes != 1)} in {sweep.seconds:.1f} s"]
    if sweep.stage:
        about.append(f"checks of stage {clean(sweep.stage, 40)}")
    if sweep.version:
        about.append(f"flightcheck {clean(sweep.version, 40)}")
    return about


def _notices(sweep: Sweep) -> list[str]:
    notices = ["The sweep was ended before every node had answered."] * sweep.interrupted
    return [*notices, *(clean(note, 400) for note in sweep.notes)]


def _names(nodes: Sequence[str]) -> list[str]:
    return [clean(node, 120) for node in nodes]


def _fleet(finding: Any) -> dict[str, str]:
    """A fleet finding as text."""
    return {
        "kind": clean(finding.kind, 40),
        "severity": finding.severity.value,
        "subject": clean(finding.subject, 120),
        "group": clean(finding.group, 120),
        "nodes": fold(_names(finding.nodes)),
        "count": f"{len(finding.nodes):,}",
        "message": clean(finding.message, 600),
        "measured": _figure(finding.measured),
        "expected": _figure(finding.expected),
    }


def _figure(value: str | float | None) -> str:
    if value is None:
        return ""
    return clean(value, 400) if isinstance(value, str) else f"{value:.6g}"


def _shares(counted: Mapping[Standing, int]) -> list[tuple[str, float, float]]:
    """(glyph, x, width) of the bar in percent; a single sick node of 10,000 stays visible."""
    total = sum(counted.values())
    present = [(standing, number) for standing, number in counted.items() if number]
    floors = {standing: max(number / total * 100, 0.6) for standing, number in present}
    scale = 100 / sum(floors.values()) if floors else 1.0
    shares, x = [], 0.0
    for standing, width in floors.items():
        shares.append((_GLYPHS[standing], round(x, 3), round(width * scale, 3)))
        x += width * scale
    return shares


def _plain(readings: Sequence[Reading]) -> list[Reading]:
    order = list(Standing)
    sick = [reading for reading in readings if reading.standing is not Standing.GO]
    return sorted(sick, key=lambda reading: order.index(reading.standing))[:MAX_PLAIN_ROWS]


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("slurm_integration.fleet_report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _part(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


@cache
def _script() -> str:
    parts = "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def _hash(text: str) -> str:
    """As a content security policy names an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
