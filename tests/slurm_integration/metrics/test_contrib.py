"""The dashboard and the alert rules speak of metrics that exist, and the alerts fire."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from healthcheck.model import Ending, Outcome, Report, Verdict, fail, warn

pytest.importorskip("sqlalchemy", reason="the fleet's metrics need the extra `fleet`")

from slurm_integration.history.collect import Summary
from slurm_integration.history.lemons import Signals, rank
from slurm_integration.history.reliability import reliability
from slurm_integration.history.store_rows import NodeRow, Tally
from slurm_integration.metrics.fleet import fleet_gauges
from slurm_integration.metrics.stage import stage_gauges
from slurm_integration.metrics.textfile import render

CONTRIB = Path(__file__).parents[3] / "contrib"
RULES = CONTRIB / "prometheus/flightcheck.rules.yml"
DASHBOARD = CONTRIB / "grafana/flightcheck.json"
NOW = 1_790_000_000.0
FROM_SCRAPE = {"instance", "job"}


@pytest.fixture(scope="module")
def node_text():
    outcomes = (
        Outcome("gpu-count", Ending.FOUND, (fail("a", "x"), warn("b", "y"))),
        Outcome("xid", Ending.UNMEASURED, reason="no"),
    )
    report = Report(Verdict.NO_GO, "node01", "h100-sxm", "prolog", 0.2, outcomes)
    return render(stage_gauges(report, "drain", NOW))


@pytest.fixture(scope="module")
def fleet_text():
    fleet = [Signals(f"n{i}", 30.0) for i in range(99)]
    fleet.append(Signals("bad", 30.0, "h100-sxm", excluded=4, xid=9, out=6, multi=9, single=3))
    ranking = rank(fleet, 50, NOW - 30 * 86_400, NOW)
    rows = {"bad": NodeRow("bad", "h100-sxm", 0.0, NOW)}
    told = [Tally("bad", "job:multi:hardware/gpu-lost", 9, 5), Tally("bad", "check:xid", 1, 1)]
    statistics = reliability(told, rows, NOW - 30 * 86_400, NOW)
    summary = Summary(100, {"reported": 99, "unreachable": 1}, 7, 5, 0, 0, (), (("n1", "x"),))
    return render(fleet_gauges(summary, ranking, statistics, NOW))


@pytest.fixture(scope="module")
def known(node_text, fleet_text):
    """Metric → its labels."""
    found = {}
    for family in text_string_to_metric_families(node_text + fleet_text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    text = RULES.read_text()
    found += re.findall(r"expr: (?!>-)(.+)", text)
    found += [" ".join(block.split()) for block in re.findall(r"expr: >-\n((?: {10,}.*\n)+)", text)]
    return found


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_speaks_of_metrics_and_labels_that_exist(expression, known):
    used = re.findall(r"(flightcheck_[a-z0-9_]+)(?:\{([^}]*)\})?", expression)
    assert used, expression
    for name, matchers in used:
        assert name in known, f"{name} is written by nobody"
        for label in re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", matchers)):
            assert label in known[name] | FROM_SCRAPE, f"{name} has no label {label}"
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        for label in labels.split(","):
            assert any(label.strip() in known[name] | FROM_SCRAPE for name, _ in used)


def test_every_metric_is_shown_or_alerted_on(known):
    text = " ".join(expressions())
    assert {name for name in known if name not in text} == set()


def test_the_dashboards_panels_do_not_overlap_and_have_their_own_ids():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(x < 24 for x, _ in cells)


def test_the_dashboard_names_no_data_source_of_ours():
    board = json.loads(DASHBOARD.read_text())
    sources = {panel["datasource"]["uid"] for panel in board["panels"] if "datasource" in panel}
    assert sources == {"${datasource}"}
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$([a-z]+)", " ".join(expressions()))) <= variables | {"labels"}


def test_promtool_finds_no_fault_with_the_fleets_metrics(fleet_text):
    done = promtool("check", "metrics", stdin=fleet_text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_finds_no_fault_with_the_rules():
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 rules found" in done.stdout


def test_promtool_reads_every_expression_of_the_dashboard(tmp_path):
    lines = ["groups:", "- name: dashboard", "  rules:"]
    for number, expression in enumerate(expressions()):
        plain = expression.replace("$profile", ".*").replace("$stage", ".*")
        lines += [f"  - record: panel:n{number}", f"    expr: {json.dumps(plain)}"]
    path = tmp_path / "panels.yml"
    path.write_text("\n".join(lines) + "\n")
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_fire_when_they_should_and_only_then(tmp_path):
    path = tmp_path / "test.yml"
    path.write_text((Path(__file__).parent / "alerts.yml").read_text().replace("RULES", str(RULES)))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def promtool(*argv, stdin=None):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return subprocess.run(["promtool", *argv], input=stdin, capture_output=True, text=True)
