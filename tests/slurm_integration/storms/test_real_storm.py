"""Eight nodes fail at once on a real slurmctld; its own count of requests says what that cost."""

import re

import pytest

from slurm_integration.drain import Drained

pytestmark = pytest.mark.slurm

NAMES = [f"node{number:02d}" for number in range(1, 9)]
READ, UPDATE = "REQUEST_NODE_INFO", "REQUEST_UPDATE_NODE"


@pytest.fixture
def shared(slurm):
    """The cluster with seats in a shared folder, as on every test's beginning without drains."""
    folder = slurm.state / "seats"
    folder.mkdir(mode=0o700, exist_ok=True)
    for seat in folder.iterdir():
        seat.unlink()
    slurm.settings(max_nodes=2, max_percent=100, max_held_percent=100, seats_dir=str(folder))
    return slurm


def requests(slurm) -> dict[str, int]:
    """How often slurmctld was asked what, by `sdiag`."""
    text = slurm.run("sdiag")
    by_type = text.partition("by message type")[2].partition("by user")[0]
    found = re.findall(r"(REQUEST_\w+)\s*\(\s*\d+\)\s*count:(\d+)", by_type)
    return {name: int(count) for name, count in found}


def fail_at_once(slurm, names: list[str]) -> list[Drained]:
    """All prologs wait at one gate, which is then opened."""
    slurm.sicken(*names)
    gates = [slurm.hold_prolog(name) for name in names]
    for name in names:
        slurm.submit("-N1", "--exclusive", "-w", name)
    slurm.wait(lambda: all((slurm.state / f"nodes/{n}/job.json").exists() for n in names))
    slurm.run("sdiag", "--reset")
    for gate in gates:
        gate.unlink()
    slurm.wait(lambda: all(slurm.decisions(name) for name in names))
    return [slurm.decisions(name)[0].outcome for name in names]


def test_a_lone_failing_node_costs_one_read_and_one_update_with_shared_seats(shared):
    assert fail_at_once(shared, ["node03"]) == [Drained.DRAINED]
    seen = requests(shared)
    print(f"\none node, shared seats: {seen}")
    assert seen[READ] == 1
    assert seen[UPDATE] == 1
    assert shared.node("node03").ours


def test_a_lone_failing_node_costs_two_reads_and_two_updates_without(slurm):
    assert fail_at_once(slurm, ["node03"]) == [Drained.DRAINED]
    seen = requests(slurm)
    print(f"\none node, claims: {seen}")
    assert seen[READ] == 2
    assert seen[UPDATE] == 2


def test_eight_at_once_with_shared_seats_get_exactly_two(shared):
    outcomes = fail_at_once(shared, NAMES)
    seen = requests(shared)
    print(f"\neight nodes, shared seats: {seen}")
    assert outcomes.count(Drained.DRAINED) == 2
    assert outcomes.count(Drained.OVER_BUDGET) == 6
    assert sum(node.ours for node in shared.nodes().values()) == 2
    assert seen[READ] == 8
    assert seen[UPDATE] == 2
    calls = [d.reads + d.updates for name in NAMES for d in shared.decisions(name)[:1]]
    assert max(calls) == 2
