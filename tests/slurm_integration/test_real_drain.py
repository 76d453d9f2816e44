"""The drain policy on a real slurmctld and real slurmds."""

import time

import msgspec
import pytest
from click.testing import CliRunner

from slurm_integration.budget import CLAIM_LIFE_S
from slurm_integration.commands.drains import command as drains
from slurm_integration.commands.resume import command as resume
from slurm_integration.drain import Drained

pytestmark = pytest.mark.slurm

DRAIN_TEXT = "flightcheck: no-go gpu-count: 7 of 8 GPUs visible (missing 0000:b3:00.0)"


def test_failing_node_is_drained_with_our_reason_and_the_job_runs_elsewhere(slurm):
    slurm.sicken("node01")
    job = slurm.submit("-N2", "--gres=gpu:8")
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED")

    node = slurm.node("node01")
    assert node.drained
    assert node.reason == f"{DRAIN_TEXT} [job {job}]"
    assert node.comment == ""
    assert slurm.job(job)["Restarts"] == "1"
    assert "ran on node[02-03]" in slurm.output(job)
    (decision,) = slurm.decisions("node01")
    assert decision.outcome is Drained.DRAINED
    assert (decision.reads, decision.updates) == (2, 2)


def test_requeued_job_is_not_held(slurm):
    slurm.sicken("node01")
    job = slurm.submit("-N1", "-w", "node01")
    slurm.wait(lambda: slurm.job(job)["Restarts"] == "1")

    slurm.wait(lambda: slurm.job(job)["JobState"] == "PENDING")
    assert slurm.job(job)["Priority"] != "0"
    assert "held" not in slurm.job(job)["Reason"].lower()


def test_healthy_node_gets_no_call_and_no_drain(slurm):
    job = slurm.submit("-N8")
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED")

    assert not any(node.held for node in slurm.nodes().values())
    assert slurm.decisions("node01") == []


def test_foreign_drain_is_left_untouched(slurm):
    slurm.sicken("node03")
    hold = slurm.hold_prolog("node03")
    slurm.submit("-N1", "-w", "node03")
    slurm.wait((slurm.state / "nodes/node03/job.json").exists)
    slurm.run(
        "scontrol", "update", "NodeName=node03", "State=DRAIN", "Reason=bad DIMM, ticket=12 [al]"
    )
    before = slurm.node("node03")
    time.sleep(1.1)
    hold.unlink()
    slurm.wait(lambda: slurm.decisions("node03"))
    slurm.wait(lambda: slurm.node("node03").drained)

    (decision,) = slurm.decisions("node03")
    assert decision.outcome is Drained.FOREIGN
    assert decision.updates == 0
    after = slurm.node("node03")
    assert after.reason == before.reason == "bad DIMM, ticket=12 [al]"
    assert after.reason_time == before.reason_time


def test_eight_nodes_failing_at_once_with_a_budget_of_two(slurm):
    names = [f"node{i:02d}" for i in range(1, 9)]
    slurm.run("scontrol", "update", "NodeName=node05", "Comment=the site's own = words")
    slurm.sicken(*names)
    jobs = [slurm.submit("-N1", "--exclusive", "-w", name) for name in names]
    slurm.wait(lambda: all(slurm.decisions(name) for name in names))
    slurm.wait(lambda: sum(slurm.job(job)["JobState"] == "COMPLETED" for job in jobs) == 6)

    outcomes = [slurm.decisions(name)[0].outcome for name in names]
    assert outcomes.count(Drained.DRAINED) == 2
    assert outcomes.count(Drained.OVER_BUDGET) == 6
    nodes = slurm.nodes()
    assert sum(node.held for node in nodes.values()) == 2
    assert sum(node.ours for node in nodes.values()) == 2
    assert nodes["node05"].comment == "the site's own = words"
    assert [node.comment for name, node in nodes.items() if name != "node05"] == [""] * 7


def test_spent_budget_costs_one_read_and_writes_nothing(slurm):
    slurm.settings(max_nodes=1, max_percent=100, max_held_percent=100)
    slurm.run("scontrol", "update", "NodeName=node08", "State=DRAIN", f"Reason={DRAIN_TEXT}")
    slurm.sicken("node01")
    job = slurm.submit("-N1", "-w", "node01")
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED")

    (decision,) = slurm.decisions("node01")
    assert decision.outcome is Drained.OVER_BUDGET
    assert (decision.reads, decision.updates) == (1, 0)
    assert not slurm.node("node01").held


def test_dry_run_writes_nothing_and_the_job_runs(slurm):
    slurm.settings(dry_run=True)
    slurm.sicken("node01")
    job = slurm.submit("-N1", "-w", "node01")
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED")

    (decision,) = slurm.decisions("node01")
    assert decision.outcome is Drained.DRY_RUN
    assert decision.updates == 0
    assert not slurm.node("node01").held


@pytest.mark.parametrize("program", ["hangs", "missing"])
def test_without_scontrol_the_job_runs_and_an_alert_is_given(slurm, program):
    script = slurm.state / "hangs"
    script.write_text("#!/bin/sh\nexec sleep 300\n")
    script.chmod(0o755)
    slurm.settings(scontrol=str(slurm.state / program), timeout_s=0.5)
    slurm.sicken("node01")
    job = slurm.submit("-N1", "-w", "node01")
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED")

    (decision,) = slurm.decisions("node01")
    assert decision.outcome is Drained.FAILED_OPEN
    assert "ALERT" in decision.message
    assert not slurm.node("node01").held


def test_without_scontrol_slurm_drains_where_the_site_says_so(slurm):
    slurm.settings(scontrol=str(slurm.state / "nowhere"), without_slurm="fail-job")
    slurm.sicken("node01")
    job = slurm.submit("-N1", "-w", "node01")
    slurm.wait(lambda: slurm.node("node01").drained)

    assert slurm.node("node01").reason == "Prolog error"
    assert slurm.decisions("node01")[0].outcome is Drained.FAILED_CLOSED
    assert slurm.job(job)["Restarts"] == "1"


def test_job_environment_of_a_real_prolog_is_understood(slurm):
    job = slurm.submit("-N1", "-w", "node02", "--gres=gpu:3", "--comment=a=b c")
    slurm.wait(lambda: slurm.job(job)["JobState"] == "COMPLETED")

    seen = msgspec.json.decode((slurm.state / "nodes/node02/job.json").read_bytes())
    assert seen["job_id"] == job
    assert seen["gpu_minors"] == [0, 1, 2]
    assert seen["nodelist"] == "node02"
    assert seen["node_name"] == "node02"
    assert seen["uid"] == 0
    assert seen["comment"] == "a=b c"
    assert seen["script_context"] == "prolog_slurmd"
    assert seen["odd"] == []


def test_dead_claim_of_another_node_does_not_hold_a_seat_for_ever(slurm):
    slurm.settings(max_nodes=1, max_percent=100, max_held_percent=100)
    old = int(time.time()) - CLAIM_LIFE_S - 5
    slurm.run("scontrol", "update", "NodeName=node07", f"Comment=[flightcheck-claim 1 {old}]")
    slurm.sicken("node01")
    slurm.submit("-N1", "-w", "node01")
    slurm.wait(lambda: slurm.node("node01").ours)


def test_resume_command_gives_back_ours_and_refuses_others(slurm, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", str(slurm.state / "etc/slurm.conf"))
    for name, reason in (("node01", DRAIN_TEXT), ("node02", DRAIN_TEXT), ("node03", "bad DIMM")):
        slurm.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    listed = CliRunner().invoke(drains)
    assert "node[01-02]" in listed.output
    assert "2 of 8 nodes drained by flightcheck; 1 held by others" in listed.output
    resumed = CliRunner().invoke(resume, ["node[01-04]"])
    assert resumed.exit_code == 2
    nodes = slurm.nodes()
    assert [nodes[name].held for name in ("node01", "node02", "node03")] == [False, False, True]
    assert nodes["node03"].reason == "bad DIMM"


def test_slurm_keeps_our_reason_when_the_prolog_exits_non_zero_after_the_drain(slurm):
    slurm.sicken("node01")
    slurm.submit("-N1", "-w", "node01")
    slurm.wait(lambda: slurm.node("node01").drained)
    first = slurm.node("node01")
    slurm.wait(lambda: slurm.run("squeue", "-h", "-o", "%r") == "BeginTime")
    assert slurm.node("node01").reason == first.reason
    assert slurm.node("node01").reason_time == first.reason_time
