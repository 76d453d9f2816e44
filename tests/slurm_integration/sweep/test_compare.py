import random

import pytest

from slurm_integration.sweep.compare import compare
from slurm_integration.sweep.compare.causes import common_causes
from slurm_integration.sweep.compare.drift import drifts
from slurm_integration.sweep.compare.outliers import outliers
from slurm_integration.sweep.compare.topology import Topology, read_topology

PSU = ("fail", "power-supplies", "PSU2", "input lost")
IB = ("fail", "ib-ports", "mlx5_0/1", "port down")
TOPOLOGY = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=node[001-040]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=node[041-080]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=node[001-080] Switches=leaf[1-2]
"""
NAMES = [f"node{i:03d}" for i in range(1, 81)]


@pytest.fixture
def fleet(make_result):
    """80 nodes; `sick` maps a node to its findings."""

    def make(sick: dict, answers: dict | None = None):
        return [
            make_result(name, answer=answers[name])
            if name in (answers or {})
            else make_result(name, "no-go" if name in sick else "go", *sick.get(name, ()))
            for name in NAMES
        ]

    return make


def test_a_leaf_switch_that_fails_alike_is_one_finding_about_it(fleet):
    sick = dict.fromkeys(NAMES[40:], (IB,))
    (finding,) = common_causes(fleet(sick), read_topology(TOPOLOGY))
    assert (finding.kind, finding.group, finding.subject) == (
        "common-cause", "leaf2", "switch leaf2",
    )  # fmt: skip
    assert finding.nodes == tuple(NAMES[40:])
    assert "40 of 40 nodes" in finding.message
    assert "ib-ports" in finding.message


def test_several_checks_that_a_rack_shares_are_still_one_finding(fleet):
    sick = dict.fromkeys(NAMES[:40], (IB, PSU))
    (finding,) = common_causes(fleet(sick), read_topology(TOPOLOGY))
    assert "ib-ports on 40; fail power-supplies on 40" in finding.message


def test_a_dark_rack_is_one_finding(fleet):
    (finding,) = common_causes(
        fleet({}, dict.fromkeys(NAMES[:38], "unreachable")), read_topology(TOPOLOGY)
    )
    assert finding.group == "leaf1"
    assert "38 of 40" in finding.message


def test_what_all_nodes_share_is_about_all_of_them(fleet):
    (finding,) = common_causes(fleet(dict.fromkeys(NAMES, (PSU,))), read_topology(TOPOLOGY))
    assert (finding.group, len(finding.nodes)) in (("fleet", 80), ("spine", 80))


@pytest.mark.parametrize(
    "sick",
    [
        NAMES[:2],  # two are a coincidence
        NAMES[:20],  # half of a leaf
        NAMES[::2],  # every other node of both
        NAMES[:40] + NAMES[40:62],  # more than half as common elsewhere
    ],
)
def test_what_a_rack_does_not_explain_stays_with_the_nodes(fleet, sick):
    assert common_causes(fleet(dict.fromkeys(sick, (IB,))), read_topology(TOPOLOGY)) == []


def test_racks_come_from_names_where_slurm_knows_none(make_result):
    results = [
        make_result(f"r{rack}-n{i:02d}", "no-go" if rack == 2 else "go", *[PSU] * (rack == 2))
        for rack in (1, 2, 3)
        for i in range(8)
    ]
    (finding,) = common_causes(results, Topology())
    assert (finding.subject, len(finding.nodes)) == ("rack r2-n*", 8)


def test_topology_of_a_file_and_of_blocks():
    text = (
        "# comment\nSwitchName=s0 Nodes=a[1-2]\nSwitchName=s1 Nodes=a[3-4]\n"
        "SwitchName=top Switches=s[0-1]\nBlockName=b1 BlockIndex=0 Nodes=c[1-9]\n"
        "SwitchName=huge Nodes=x[1-99999999]\nSwitchName=bad Nodes=[[\nnonsense\n"
        "SwitchName=loop Switches=loop,s0\n"
    )
    found = {s.name: len(s.nodes) for s in read_topology(text).switches}
    assert found == {"s0": 2, "s1": 2, "top": 4, "b1": 9, "loop": 2}
    assert read_topology(text).leaf_of(["a1", "a3", "c2"])["c2"] == "b1"


def with_facts(make_result, node, versions=None, figures=None, **more):
    facts = {"versions": versions or {}, "figures": figures or {}}
    return make_result(node, facts=facts, **more)


def test_the_node_with_another_firmware_is_named_with_what_the_others_have(make_result):
    results = [
        with_facts(
            make_result, n, {"GPU driver": ["550.54"], "VBIOS": ["B" if n == "node007" else "A"]}
        )
        for n in NAMES
    ]
    (finding,) = drifts(results)
    assert (finding.kind, finding.subject, finding.nodes) == ("drift", "VBIOS", ("node007",))
    assert (finding.measured, finding.expected) == ("B", "A")
    assert "79 of 80 have A" in finding.message


def test_two_versions_side_by_side_in_one_node_are_drift(make_result):
    results = [
        with_facts(make_result, n, {"firmware": ["1", "2"] if n == "node001" else ["1"]})
        for n in NAMES
    ]
    (finding,) = drifts(results)
    assert "1 and 2 side by side" in finding.message


def test_half_and_half_names_both_sides(make_result):
    results = [with_facts(make_result, n, {"driver": [str(i % 2)]}) for i, n in enumerate(NAMES)]
    found = drifts(results)
    assert {len(f.nodes) for f in found} == {40}
    assert len(found) == 2
    assert all(f.expected is None for f in found)


def figures(make_result, name, values, **more):
    return [
        with_facts(make_result, f"node{i:03d}", figures={name: value}, **more)
        for i, value in enumerate(values)
    ]


OUTLIERS = [
    ("gpu_temperature_c", 40.0, 1.5, 71.0, True),
    ("gpu_temperature_c", 40.0, 1.5, 20.0, False),  # cool does no harm
    ("gpu_power_w", 600.0, 20.0, 300.0, True),
    ("nvlink_gb_s", 450.0, 0.0, 425.0, True),
    ("nvlink_gb_s", 450.0, 0.0, 449.5, False),
    ("network_gbit_s", 3200.0, 0.0, 2800.0, True),
    ("pcie_replays_per_hour", 0.0, 0.0, 500.0, True),
    ("pcie_replays_per_hour", 0.0, 0.0, 3.0, False),
]


@pytest.mark.parametrize(("name", "middle", "noise", "odd", "told"), OUTLIERS)
def test_a_node_far_from_its_peers_is_told(make_result, name, middle, noise, odd, told):
    rng = random.Random(7)
    values = [middle + rng.gauss(0, noise) for _ in range(40)] + [odd]
    findings, (metric,) = outliers(figures(make_result, name, values))
    assert [f.nodes for f in findings] == ([("node040",)] if told else [])
    assert abs(metric.median - middle) < 1 + noise


def test_ten_thousand_ordinary_nodes_have_no_outlier(make_result):
    rng = random.Random(3)
    values = [rng.gauss(45, 4) for _ in range(10_000)]
    assert outliers(figures(make_result, "gpu_temperature_c", values))[0] == []


def test_many_bad_nodes_do_not_move_the_middle(make_result):
    values = [40.0] * 60 + [80.0] * 30
    findings, (metric,) = outliers(figures(make_result, "gpu_temperature_c", values))
    assert (metric.median, len(findings)) == (40, 30)


def test_four_nodes_have_no_middle(make_result):
    findings, (metric,) = outliers(figures(make_result, "gpu_temperature_c", [40, 40, 40, 90]))
    assert (findings, metric.high) == ([], None)


def test_a_node_under_a_job_is_not_compared_with_idle_ones(make_result):
    results = figures(make_result, "gpu_temperature_c", [35] * 10)
    results += [with_facts(make_result, "busy1", figures={"gpu_temperature_c": 75}, stage="health")]
    findings, metrics = outliers(results)
    assert findings == []
    assert {metric.group for metric in metrics} == {"h100-sxm", "h100-sxm under a job"}


def test_interrupted_nodes_take_no_part(make_result):
    results = [make_result(f"n{i}", answer="interrupted") for i in range(50)] + [make_result("x")]
    assert compare(results, Topology()).findings == ()
