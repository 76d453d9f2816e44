"""The environment of a step, the srun command line, and what one test's answers add up to."""

import pytest

from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, BusBandwidth
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.model import Verdict
from slurm_integration.allreduce_nodes.admin import srun_argv
from slurm_integration.allreduce_nodes.coordinator import merge
from slurm_integration.allreduce_nodes.model import Conclusion, Fault, Measured, NodeResult, Rule
from slurm_integration.allreduce_nodes.model import RunReport as Told
from slurm_integration.allreduce_nodes.order import Order
from slurm_integration.allreduce_nodes.report import to_text
from slurm_integration.allreduce_nodes.step import (
    StepError,
    parse_aliases,
    read_step,
    several_nodes,
    spare_task,
)
from slurm_integration.allreduce_nodes.torch_work import TorchWork, answer, interface_of
from slurm_integration.commands.allreduce_nodes import _again

STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_NODELIST": "node[09-10],login1",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "8",
    "SLURM_LOCALID": "0",
}
ORDER = Order(3, 8, 16, "10.0.0.2", 4000, False, "127.0.0.1", 5, 30.0)


def test_a_step_is_read_from_what_srun_sets() -> None:
    step = read_step(STEP)
    assert step.nodes == ("node09", "node10", "login1"), "in Slurm's order, not sorted"
    assert step.name == "node10"
    assert step.port(0) + 2 == step.port(2)
    other = read_step({**STEP, "SLURM_STEP_ID": "1"})
    assert step.port(0) != other.port(0)
    assert 20_000 <= step.port(2) < 32_000


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SLURM_NODEID", "3", "expected less than 3"),
        ("SLURM_NODEID", "-1", "SLURM_NODEID: expected a number"),
        ("SLURM_PROCID", "", "SLURM_PROCID: expected a number"),
        ("SLURM_STEP_NODELIST", "node[1-", "SLURM_STEP_NODELIST"),
        ("SLURM_STEP_NODELIST", "node[1-999999999]", "SLURM_STEP_NODELIST"),
        ("SLURM_STEP_NODELIST", "", "within a job"),
    ],
)
def test_an_environment_that_is_no_steps_is_refused_by_name(
    name: str, value: str, words: str
) -> None:
    with pytest.raises(StepError, match=words.replace("[", r"\[")):
        read_step({**STEP, name: value})


def test_only_a_task_of_a_step_over_several_nodes_flies_with_others() -> None:
    assert several_nodes(STEP)
    assert not several_nodes({**STEP, "SLURM_STEP_NUM_NODES": "1"})
    assert not several_nodes({k: v for k, v in STEP.items() if k != "SLURM_STEP_ID"})
    assert not several_nodes({})
    assert spare_task({**STEP, "SLURM_LOCALID": "1"})
    assert not spare_task(STEP)
    assert not spare_task({"SLURM_LOCALID": "1"})


def test_addresses_of_cloud_nodes() -> None:
    text = "n1:[10.0.0.1]:h1,n2:10.0.0.2:h2,n3:[fe80::1]:h3"
    assert parse_aliases(text) == {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "fe80::1"}
    assert parse_aliases("nonsense,,:") == {}


def test_srun_from_outside_takes_whole_nodes_and_does_not_queue_for_ever() -> None:
    argv = srun_argv(["n1", "n2"], 8, ["flightcheck", "allreduce"], ["--partition=gpu"], 300.0,
                     inside=False)  # fmt: skip
    assert {"--nodes=2", "--nodelist=n[1-2]", "--exclusive", "--immediate=30", "--gres=gpu:8",
            "--kill-on-bad-exit=0", "--wait=300", "--time=7"} <= {*argv}  # fmt: skip
    assert argv[-3:] == ["--partition=gpu", "flightcheck", "allreduce"]
    inside = srun_argv(["n1"], 8, ["x"], ["--gpus-per-node=4"], 60.0, inside=True)
    assert not any(word.startswith(("--immediate", "--gres")) for word in inside)


def test_options_for_outside_are_not_passed_on() -> None:
    line = "flightcheck allreduce --nodes n[1-4] --full --srun=-pgpu --srun --mem=0 --sizes 1M"
    assert _again(line.split()) == ["--full", "--sizes", "1M"]


def result(end: str, **more: object) -> NodeResult:
    return NodeResult(1, end, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "lost", "end", "figure"),
    [
        ({"a": result("ok", busbw_gb_s=9.0), "b": result("ok", busbw_gb_s=7.0)}, (), "ok", 7.0),
        ({"a": result("hung"), "b": result("corrupt", busbw_gb_s=7.0)}, (), "corrupt", None),
        ({"a": result("ok", busbw_gb_s=9.0)}, ("b",), "lost", None),
        ({"a": result("could-not-start"), "b": result("died")}, (), "died", None),
    ],
)
def test_a_test_ends_as_its_worst_node_does(
    answers: dict[str, NodeResult], lost: tuple[str, ...], end: str, figure: float | None
) -> None:
    told = merge(["a", "b"], "pair", 2, answers, lost, 1.5)
    assert (told.end, told.busbw_gb_s, told.lost, told.round) == (end, figure, lost, 2)


def test_only_a_reason_of_its_own_makes_a_node_guilty() -> None:
    def told(cause: str, order: Order = ORDER) -> str:
        end = AllreduceEnd.COULD_NOT_START
        return answer(AllreduceResult(end, "nccl", "quick", 16, cause=cause), order).own_fault

    assert told("no-cuda").startswith("no-cuda")
    assert told("no-torch").startswith("no-torch")
    assert told("rendezvous") == told("absent") == told("connect") == ""


def test_the_figure_is_that_of_the_largest_message() -> None:
    points = tuple(
        BusBandwidth(size, "float32", 5, 1.0, 1.0, figure, figure, figure)
        for size, figure in ((1 << 20, 90.0), (1 << 26, 40.0), (1 << 23, 70.0))
    )
    whole = AllreduceResult(AllreduceEnd.OK, "gloo", "quick", 2, bandwidth=points)
    assert answer(whole, ORDER).busbw_gb_s == 40.0


def test_an_order_becomes_a_plan_for_this_nodes_ranks() -> None:
    work = TorchWork("n1", "/x", AllreduceSettings(), "gloo", 4, (), "quick", [1 << 16, 1 << 20])
    plan = work.plan(ORDER)
    assert (plan.first, plan.ranks, plan.local, plan.serve) == (8, 16, 4, False)
    assert (plan.store_host, plan.store_port, plan.bind) == ("10.0.0.2", 4000, "10.0.0.2")
    assert plan.env == {"GLOO_SOCKET_IFNAME": "lo"}
    assert plan.join_s <= 15
    assert interface_of("127.0.0.1") == "lo"


def test_the_report_shows_every_bad_pair_and_cleans_what_nodes_say() -> None:
    tests = (
        Measured(("n1", "n2"), "pair", 1, "ok", 48.0),
        Measured(("n3", "n4"), "pair", 1, "ok", 11.5),
        Measured(("n1", "n3"), "pair", 2, "hung", reason="n3: stuck\x1b[31m"),
    )
    fault = Fault("node", ("n3",), "n3 is slow with every partner")
    told = Told(
        "no-go", Conclusion(Verdict.NO_GO, (fault,), 48.0), ("n1", "n2", "n3", "n4"), (), tests,
        "n1", "nccl", 32, 12.0,
    )  # fmt: skip
    text = to_text(told, Rule())
    assert "all_reduce over 4 nodes (n[1-4]), 32 ranks, nccl: no-go in 12.0 s" in text
    assert "round 1  n3–n4        11.5      24%  slow" in text
    assert "hung: n3: stuck" in text
    assert "\x1b" not in text
