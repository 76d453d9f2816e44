"""The report's data and text, without a browser."""

import json
import math
import re

import pytest
from sample_fleet import fleet, result, trouble

from healthcheck.model import Action
from slurm_integration.fleet_report import payload as payload_module
from slurm_integration.fleet_report import render
from slurm_integration.fleet_report.commands import ANSWERS, REMEDIES, explain, filled, fold
from slurm_integration.fleet_report.groups import gather
from slurm_integration.fleet_report.payload import embed, payload
from slurm_integration.fleet_report.plots import MAX_DOTS, draw
from slurm_integration.fleet_report.reading import MAX_FINDINGS, Standing, read_result
from slurm_integration.sweep.model import Answer, Comparison, Metric, NodeResult, Sweep


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def test_the_same_sweep_gives_the_same_page():
    sweep, racks = fleet(50)
    assert render(sweep, racks=racks) == render(sweep, racks=racks)


def test_the_page_names_nothing_outside_itself():
    sweep, racks = fleet(50)
    page = render(sweep, racks=racks)
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert "@import" not in page
    assert "url(" not in page
    assert not re.search(r"<[^>]+\son[a-z]+=", page)
    assert not re.search(r"<[^>]+\sstyle=", page)


def test_the_policy_allows_nothing_but_the_two_inline_parts():
    page = render(Sweep(0, 0, "sweep", ()))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]


def test_a_silent_node_is_never_a_no_go():
    reading = read_result(NodeResult("node01", "ssh", Answer.TIMED_OUT, detail="30 s"))
    assert reading.standing is Standing.SILENT


@pytest.mark.parametrize(
    "report",
    [
        {}, {"verdict": "great"}, {"verdict": "go", "outcomes": 7},
        {"verdict": "go", "outcomes": [{"check": 1, "outcome": "passed"}]},
        {"verdict": "no-go", "outcomes": [{"check": "a", "outcome": "found", "findings": [{}]}]},
    ],
)  # fmt: skip
def test_a_report_of_another_form_is_garbage_not_a_crash(report):
    reading = read_result(NodeResult("node01", "ssh", Answer.REPORTED, report))
    assert reading.answer is Answer.GARBAGE
    assert reading.standing is Standing.SILENT
    assert "not of flightcheck's form" in reading.detail
    render(Sweep(0, 0, "sweep", (NodeResult("node01", "ssh", Answer.REPORTED, report),)))


def test_escape_sequences_and_direction_overrides_do_not_reach_the_page():
    finding = trouble(0) | {
        "message": "bad \x1b[31mred\x1b[0m \u202egnp.exe \x00",
        "subject": "\x1b]0;x\x07",
    }
    page = render(Sweep(0, 0, "sweep", (result("node01", "no-go", [finding]),)))
    for char in ("\x1b", "\u202e", "\x00", "\\u001b", "\\u202e"):
        assert char not in page


def test_a_node_with_very_many_findings_keeps_the_worst_and_says_how_many_more():
    found = [trouble(3) | {"subject": str(number)} for number in range(100)] + [trouble(0)]
    reading = read_result(result("node01", "no-go", found))
    assert len(reading.findings) == MAX_FINDINGS
    assert reading.findings[0].check == "gpu-count"
    assert reading.more == 101 - MAX_FINDINGS


def test_beyond_the_text_budget_findings_keep_their_check(monkeypatch):
    monkeypatch.setattr(payload_module, "BUDGET", 9_000)
    results = [
        result(f"node{n:03d}", "no-go", [trouble(0) | {"message": f"{n}" * 100}])
        for n in range(200)
    ]
    data = payload([read_result(one) for one in results], ())
    checks = {data["texts"][row[0]] for row in data["rows"]}
    assert checks == {"gpu-count"}
    assert len(data["findings"]) == 200
    assert sum(map(len, data["texts"])) < 20_000


def test_equal_answers_are_one_group_and_different_remedies_are_two():
    readings = [
        read_result(one)
        for one in (
            result("node01", "no-go", [trouble(0, "0000:01:00.0")]),
            result("node02", "no-go", [trouble(0, "0000:02:00.0")]),
            result("node03", "no-go", [trouble(0) | {"action": "replace"}]),
            result("node04"),
            result("node05"),
            NodeResult("node06", "ssh", Answer.UNREACHABLE, detail="no route"),
        )
    ]
    groups, left = gather(readings)
    assert [(g.standing.value, g.folded) for g in groups] == [
        ("no-go", "node[01-02]"), ("no-go", "node03"), ("no answer", "node06"),
        ("go", "node[04-05]"),
    ]  # fmt: skip
    assert left == 0
    assert not groups[0].lines[0].alike
    assert "scontrol reboot 'node[01-02]'" in [c.line for c in groups[0].commands]
    assert not any("reboot" in c.line for c in groups[1].commands)


def test_every_remedy_and_answer_has_its_commands():
    assert set(REMEDIES) == set(Action)
    assert set(ANSWERS) == set(Answer)
    assert not any("resume" in c.line for c in REMEDIES[Action.REBOOT])


@pytest.mark.parametrize(
    "name", ["node01; rm -rf /", "$(reboot)", "`id`", "-w", "a b", "node01\nnode02", "", "x" * 300]
)
def test_a_name_that_is_no_nodes_name_gets_no_commands(name):
    assert filled(REMEDIES[Action.REBOOT], [name]) == []
    assert filled(REMEDIES[Action.REBOOT], ["node01", name]) == []
    fold([name, "node01"])


def test_only_well_formed_check_names_reach_a_command():
    assert [c.line for c in explain(["gpu-count", "a; id", "$(id)", "xid"])] == [
        "flightcheck explain gpu-count",
        "flightcheck explain xid",
    ]


def test_the_data_block_cannot_end_its_element():
    hostile = {"a": "</script><!--<script>&\u2028\u2029"}
    text = embed(hostile)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == hostile


def test_figures_that_are_no_numbers_are_left_out_of_the_plot():
    values = {"a": math.nan, "b": math.inf, "c": 5.0}
    plot = draw(Metric("m", "W", "g", 5.0, 0.0, None, 9.0, values))
    assert plot is not None
    assert plot.count == 1
    assert draw(Metric("m", "W", "g", 5.0, 0.0, None, None, {})) is None
    page = render(Sweep(0, 0, "sweep", (result("a"), result("b"), result("c"))))
    assert "NaN" not in page


@pytest.mark.parametrize("values", [[5.0], [5.0] * 9, [-1e300, 1e300], [0.0, 0.0, 1e-300]])
def test_any_spread_of_figures_stays_inside_the_drawing(values):
    nodes = {f"n{at}": value for at, value in enumerate(values)}
    plot = draw(Metric("m", "W", "g", values[0], 0.0, None, None, nodes))
    assert plot is not None
    assert sum(1 for bar in plot.bars if bar.height > 0) >= 1
    assert all(0 <= bar.x <= 320 for bar in plot.bars)


def test_outliers_are_named_the_farthest_first_and_bounded():
    values = {f"n{at:04d}": 100.0 + at for at in range(1000)} | {"far": -900.0}
    plot = draw(Metric("m", "W", "g", 600.0, 10.0, 550.0, 650.0, values))
    assert plot is not None
    assert plot.outliers > MAX_DOTS == len(plot.shown)
    assert plot.shown[0].node == "far"


def test_the_page_carries_every_node_once_in_the_sweeps_order():
    sweep, racks = fleet(300)
    data = data_of(render(sweep, racks=racks))
    assert data["names"] == [r.node for r in sweep.results]
    kinds = [data["standings"][int(digit)] for digit in data["standing"]]
    assert kinds == [r.verdict.value if r.verdict else "no answer" for r in sweep.results]


def test_a_fleet_where_everything_fails_differently_stays_below_eight_megabytes():
    results = []
    for number in range(10_000):
        found = [
            trouble(at) | {"check": f"check-{at}", "message": f"{number} and {at}: " + "word " * 20}
            for at in range(30)
        ]
        results.append(result(f"gpu-{number:05d}-rack{number % 97}", "no-go", found))
    page = render(Sweep(0, 0, "sweep", tuple(results)))
    assert len(page.encode()) < 8_000_000
    assert len(data_of(page)["findings"]) == 10_000


def test_a_figure_of_some_nodes_stays_with_them_and_has_a_name_people_say():
    results = tuple(result(f"node{number}") for number in range(4))
    metric = Metric("gpu_power_w", "W", "g", 5.0, 1.0, None, 9.0, {"node1": 4.0, "node3": 5.5})
    page = render(Sweep(0, 0, "sweep", results, comparison=Comparison((), (metric,))))
    told = data_of(page)["metrics"][0]
    assert (told["name"], told["at"], told["values"]) == ("mean GPU power", [1, 3], [4, 5.5])
    assert "mean GPU power" in page.partition('id="data"')[0]
