"""`sweep --deep`: which nodes are tested, in which groups, and what its answers become."""

import msgspec
import pytest

from healthcheck.model import Severity, Verdict
from slurm_integration.allreduce_nodes.model import Conclusion, Fault, Measured, RunReport
from slurm_integration.node_state import NodeState
from slurm_integration.sweep.deep import Flown, Left, batches, choose, judge, read
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.options import Options
from slurm_integration.sweep.slurm import Known


def report(*faults: Fault, absent=(), tests=()) -> RunReport:
    ended = Conclusion(Verdict.GO, faults, None)
    return RunReport("go", ended, ("a", "b"), absent, tests, "a", "nccl", 16, 3.0)


def test_only_idle_nodes_whose_checks_found_nothing_are_tested(make_result):
    states = {
        "idle": NodeState("idle", "IDLE"), "warm": NodeState("warm", "IDLE"),
        "busy": NodeState("busy", "MIXED"), "out": NodeState("out", "IDLE", ("DRAIN",)),
        "sick": NodeState("sick", "IDLE"), "leaving": NodeState("leaving", "IDLE", ("COMPLETING",)),
        "silent": NodeState("silent", "IDLE"),
    }  # fmt: skip
    results = [
        make_result("idle", "go"), make_result("warm", "degraded"), make_result("busy", "go"),
        make_result("out", "go"), make_result("sick", "no-go"), make_result("leaving", "go"),
        make_result("silent", answer="unreachable"), make_result("stranger", "go"),
    ]  # fmt: skip
    ready, left = choose(results, Known(states, {}))
    assert ready == ["idle", "warm"]
    assert {one.node: one.why for one in left} == {
        "busy": "not idle (mixed)", "out": "out of service", "sick": "no-go: mend that first",
        "leaving": "not idle (idle)", "silent": "it gave no report",
        "stranger": "Slurm does not know it",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [(0, 32, []), (1, 32, [1]), (2, 2, [2]), (3, 2, [3]), (33, 32, [17, 16]), (64, 32, [32, 32]),
     (65, 32, [22, 22, 21])],
)  # fmt: skip
def test_groups_are_bounded_alike_and_nobody_is_left_alone(count, most, sizes):
    made = batches([f"n{number}" for number in range(count)], most)
    assert [len(batch) for batch in made] == sizes
    assert sorted(node for batch in made for node in batch) == sorted(
        f"n{number}" for number in range(count)
    )


def test_a_report_becomes_findings_figures_and_notes():
    node = Fault("node", ("b",), "b is slow with each of its partners")
    link = Fault("link", ("a", "c"), "a–c is slow, and both are good with others")
    tests = (
        Measured(("a", "b"), "pair", 1, "ok", 20.0), Measured(("a", "c"), "pair", 2, "ok", 190.0),
        Measured(("b", "c"), "pair", 2, "died"),
    )  # fmt: skip
    found, notes = judge(
        [Flown(("a", "b", "c"), report(node, link, absent=("d",), tests=tests)),
         Flown(("e", "f"), None, "Requested nodes are busy")],
        [Left("x", "out of service"), Left("y", "out of service")],
    )  # fmt: skip
    told = [(f.severity, f.nodes) for f in found.findings]
    assert told == [
        (Severity.FAIL, ("b",)), (Severity.WARN, ("a", "c")), (Severity.WARN, ("d",)),
    ]  # fmt: skip
    (metric,) = found.metrics
    assert metric.values == {"a": 190.0, "b": 20.0, "c": 190.0}
    assert any("not tested: Requested nodes are busy" in note for note in notes)
    assert any("not tested: out of service" in note for note in notes)


def test_a_node_by_itself_is_told_by_its_own_verdict():
    alone = read(["a"], b'{"verdict":"no-go","node":"a"}\n', "")
    found, notes = judge([alone], [])
    assert [f.nodes for f in found.findings] == [("a",)]
    assert "by itself: no-go" in notes[0]


@pytest.mark.parametrize(
    ("output", "errors", "told"),
    [
        (b"", "srun: error: Unable to allocate resources: Requested nodes are busy\n", "busy"),
        (b"\xff\x00{}\n[1]\n" * 1000, "", "it told nothing"),
        (b'{"verdict": 7}', "\x1b[31mtorch is not there\x1b[0m", "torch is not there"),
    ],
)
def test_garbage_is_no_report_and_no_finding(output, errors, told):
    flown = read(["a", "b"], output, errors)
    assert flown.report is None and told in flown.trouble and flown.trouble.isprintable()
    assert judge([flown], [])[0].findings == ()


def test_other_words_before_the_report_do_not_hide_it():
    data = msgspec.json.encode(report())
    assert read(["a", "b"], b"NCCL INFO hello\n" + data + b"\n", "").report is not None


@pytest.mark.parametrize("via", ["ssh", "local"])
def test_without_slurm_there_is_no_deep_test(via):
    with pytest.raises(SweepError, match="--deep"):
        Options(nodelist="" if via == "local" else "a", via=via, deep=True).check()
