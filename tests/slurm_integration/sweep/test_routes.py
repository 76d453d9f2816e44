import pytest

from slurm_integration.node_state import NodeState, parse_state
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.routes import make_targets, route, select_nodes
from slurm_integration.sweep.slurm import Known, read_known
from slurm_integration.sweep.transports.base import Errand, Target
from slurm_integration.sweep.transports.framing import SCRIPT
from slurm_integration.sweep.transports.srun import groups, step_argv

STATES = {
    "node01": "IDLE",
    "node02": "IDLE+DRAIN",
    "node03": "MIXED",
    "node04": "DOWN*",
    "node05": "IDLE+COMPLETING",
    "node06": "IDLE~",
    "node07": "IDLE+MAINTENANCE+RESERVED",
    "node08": "IDLE+PLANNED",
    "node09": "ALLOCATED+DRAIN",
    "node10": "IDLE",
}


@pytest.fixture
def known() -> Known:
    nodes = {}
    for name, text in STATES.items():
        base, flags, suffix = parse_state(text)
        partitions = () if name == "node10" else ("gpu", "all")
        nodes[name] = NodeState(name, base, flags, suffix, partitions=partitions)
    return Known(nodes, dict.fromkeys(STATES, 8))


def ways(known, via, names=tuple(STATES)):
    routes = route(make_targets(names, known, "sweep"), known, via)
    return {way: [t.node for t in targets] for way, targets in routes.ways.items()}, routes


def test_auto_gives_srun_only_what_slurm_would_give_at_once(known):
    split, routes = ways(known, "auto")
    assert split["srun"] == ["node01"]
    assert split["ssh"] == [name for name in STATES if name != "node01"]
    assert routes.refused == ()


def test_a_busy_node_gets_the_checks_that_run_beside_a_job(known):
    stages = {t.node: t.stage for t in make_targets(STATES, known, "sweep")}
    assert [name for name, stage in stages.items() if stage == "health"] == [
        "node03", "node05", "node09",
    ]  # fmt: skip


def test_srun_alone_refuses_the_others_with_the_reason(known):
    split, routes = ways(known, "srun")
    assert split == {"srun": ["node01"]}
    reasons = {target.node: why for target, why in routes.refused}
    assert reasons["node03"] == "busy with a job"
    assert "IDLE+DRAIN" in reasons["node02"]
    assert reasons["node10"] == "it is in no partition"


def test_a_node_unknown_to_slurm_goes_through_ssh(known):
    split, _ = ways(known, "auto", ["node01", "login1"])
    assert split == {"srun": ["node01"], "ssh": ["login1"]}


CASES = [
    ("", "", list(STATES)),
    ("", "drained", ["node02"]),
    ("", "draining", ["node09"]),
    ("", "drain", ["node02", "node09"]),
    ("", "down", ["node04"]),
    ("", "alloc,mix", ["node03", "node09"]),
    ("", "busy", ["node03", "node05", "node09"]),
    ("gpu", "idle", ["node01", "node02", "node05", "node06", "node07", "node08"]),
    ("gpu,all", "maint", ["node07"]),
]


@pytest.mark.parametrize(("partition", "state", "nodes"), CASES)
def test_nodes_are_selected_by_partition_and_state(known, partition, state, nodes):
    assert select_nodes(known, partition, state) == nodes


@pytest.mark.parametrize(
    ("partition", "state", "told"),
    [
        ("cpu", "", "no such partition; there are all, gpu"),
        ("", "asleep", "expected one of"),
        ("", "unknown", "no node of 10"),
    ],
)
def test_a_selection_of_nothing_says_why(known, partition, state, told):
    with pytest.raises(SweepError, match=told):
        select_nodes(known, partition, state)


def test_gpus_are_read_from_gres_and_not_from_comments():
    text = (
        "NodeName=n1 Gres=gpu:h100:8(S:0-1) NodeAddr=n1 State=IDLE Partitions=gpu "
        "Comment=x Gres=gpu:3\n"
        "NodeName=n2 Gres=(null) State=IDLE Partitions=gpu\n"
        "NodeName=n3 Gres=gpu:a100:4(S:0),gpu:t4:2,shard:9 State=IDLE Partitions=gpu\n"
        "NodeName=n4 Gres=gpu:2 State=IDLE\n"
        "NodeName=n5 State=IDLE Comment= Gres=gpu:7\n"
    )
    known = read_known(text)
    assert {name: known.gpus.get(name, 0) for name in known.nodes} == {
        "n1": 8, "n2": 0, "n3": 6, "n4": 2, "n5": 0,
    }  # fmt: skip


def test_as_few_steps_as_partitions_and_gpu_counts_need():
    targets = [
        Target("a1", partitions=("small", "big"), gpus=8),
        Target("a2", partitions=("big",), gpus=8),
        Target("a3", partitions=("big",), gpus=4),
        Target("b1", partitions=("other",), gpus=0),
        Target("c1"),
    ]
    made = [(name, [t.node for t in group]) for name, group in groups(targets)]
    assert made == [("big", ["a3"]), ("big", ["a1", "a2"]), ("other", ["b1"]), ("", ["c1"])]


def test_srun_takes_whole_nodes_with_all_their_gpus():
    group = [Target(f"node{i:02d}", partitions=("gpu",), gpus=8) for i in range(1, 5)]
    argv = step_argv("/usr/bin/srun", group, "gpu", Errand())
    assert {
        "--nodelist=node[01-04]", "--nodes=4", "--ntasks=4", "--exclusive", "--gres=gpu:8",
        "--partition=gpu", "--no-kill", "--label",
    } <= set(argv)  # fmt: skip
    assert argv[argv.index("/bin/sh") + 2] == SCRIPT
    assert argv[-5:] == ["check", "--json", "--facts", "--stage", "sweep"]
