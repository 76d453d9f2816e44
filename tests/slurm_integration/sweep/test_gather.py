import pytest

from slurm_integration.sweep.gather import as_text, exit_code, gather, one_line, summary

GPU = ("fail", "gpu-count", "0000:b3:00.0", "7 of 8 GPUs visible")


def test_equal_answers_are_said_once_and_the_worst_first(make_result):
    results = [make_result(f"node{i:03d}") for i in range(1, 481)]
    results += [make_result(f"node{i:03d}", "no-go", GPU) for i in (481, 482)]
    results += [
        make_result(f"node{i}", answer="refused", detail=f"nothing listens on node{i}:22")
        for i in (900, 901)
    ]
    assert as_text(gather(results)) == [
        "node[481-482]: no-go",
        "    fail gpu-count 0000:b3:00.0: 7 of 8 GPUs visible",
        "node[900-901]: refused",
        "    nothing listens on %h:22",
        "node[001-480]: go",
    ]


def test_different_findings_are_different_answers(make_result):
    other = (*GPU[:3], "6 of 8 GPUs visible")
    groups = gather([make_result("a1", "no-go", GPU), make_result("a2", "no-go", other)])
    assert [group.nodes for group in groups] == [("a1",), ("a2",)]


def test_a_node_in_one_line(make_result):
    warn = ("warn", "clock", "", "off by 3 s")
    assert one_line(make_result("a1", "no-go", GPU, warn)) == (
        "a1: no-go fail gpu-count 0000:b3:00.0: 7 of 8 GPUs visible (+1 more)"
    )
    assert (
        one_line(make_result("a1", answer="timed-out", detail="silent")) == "a1: timed-out silent"
    )


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["go"], 0),
        (["go", "degraded"], 1),
        (["degraded", "unknown"], 3),
        (["unknown", "no-go", "go"], 2),
    ],
)
def test_exit_code_is_the_worst_of_all(make_result, verdicts, code):
    assert exit_code([make_result(f"n{i}", v) for i, v in enumerate(verdicts)]) == code


def test_a_node_without_a_report_is_unknown_and_never_no_go(make_result):
    results = [make_result("a1"), make_result("a2", answer="wrong-host-key")]
    assert exit_code(results) == 3
    assert summary(results) == "1 go, 1 wrong-host-key of 2 nodes"
