"""The drain policy against a stand-in for scontrol that can be slow, hang or refuse."""

import subprocess
import sys
import time

import msgspec
import pytest
from fake_scontrol import FakeSlurm, in_parallel

from healthcheck.config import DrainSettings
from slurm_integration.drain import Decision, Drained, drain_node

REASON = "no-go gpu-count: 7 of 8 GPUs visible"
TEXT = f"flightcheck: {REASON} [job 7]"


def settings(fake: FakeSlurm, **changes: object) -> DrainSettings:
    base = {"jitter_s": 0.0, "max_nodes": 2, "max_percent": 100.0}
    base |= {"max_held_percent": 100.0, "scontrol": fake.program, "timeout_s": 5.0}
    return DrainSettings(**{**base, **changes})  # type: ignore[arg-type]


def drain(
    fake: FakeSlurm,
    node: str = "node01",
    left_s: float = 10,
    *,
    dry_run: bool = False,
    **changes: object,
) -> Decision:
    deadline = time.monotonic() + left_s
    return drain_node(REASON, settings(fake, **changes), node, 7, deadline, dry_run=dry_run)


def test_failing_node_is_drained(fake):
    fake.set("node01", comment="rack 7")
    decision = drain(fake)
    assert decision.outcome is Drained.DRAINED
    assert decision.fail_job
    assert fake.drained == {"node01": TEXT}
    assert fake.nodes["node01"]["comment"] == "rack 7"
    assert len(fake.calls) == decision.reads + decision.updates == 4


@pytest.mark.parametrize(
    ("state", "fail_job"), [("IDLE+DRAIN", True), ("DOWN*", False), ("MIXED+FAIL", False)]
)
def test_foreign_hold_is_left_untouched_and_said_so(fake, state, fail_job):
    fake.set("node01", state=state, reason="bad DIMM", at=1, user="al")
    before = fake.nodes
    decision = drain(fake)
    assert decision.outcome is Drained.FOREIGN
    assert decision.fail_job is fail_job
    assert fake.nodes == before
    assert len(fake.calls) == 1
    for word in ("node01", "bad DIMM", "by al", "left as it is", TEXT):
        assert word in decision.message


def test_foreign_drain_during_the_wait_wins(fake):
    def work(number: int) -> str:
        if number == 0:
            return drain(fake).outcome
        time.sleep(0.8)
        fake.drain("node01", "bad DIMM", user="al")
        return ""

    assert in_parallel(2, work)[0] == Drained.FOREIGN
    assert fake.drained == {"node01": "bad DIMM"}
    assert fake.nodes["node01"]["comment"] == ""


def test_node_that_we_drained_before_is_not_written_again(fake):
    fake.drain("node01", "flightcheck: no-go a: b : Prolog error")
    before = fake.nodes
    decision = drain(fake)
    assert decision.outcome is Drained.ALREADY_OURS
    assert decision.fail_job
    assert (fake.nodes, len(fake.calls)) == (before, 1)


def test_leftover_reason_of_a_resumed_node_is_ignored(fake):
    fake.set("node01", reason="flightcheck: no-go a: b", at=1, user="root")
    assert drain(fake).outcome is Drained.DRAINED


@pytest.mark.parametrize("spent", [False, True])
def test_dry_run_reads_once_and_writes_nothing(fake, spent):
    before = fake.nodes
    decision = drain(fake, dry_run=True, max_nodes=0 if spent else 2)
    assert decision.outcome is Drained.DRY_RUN
    assert not decision.fail_job
    assert "nothing drained" in decision.message
    assert ("over budget" in decision.message) is spent
    assert (fake.nodes, len(fake.calls)) == (before, 1)


@pytest.mark.parametrize("reason", ["flightcheck: no-go a: b", "bad DIMM"])
def test_dry_run_fails_no_job_on_a_node_that_is_drained_already(fake, reason):
    fake.drain("node01", reason)
    assert not drain(fake, dry_run=True).fail_job
    assert len(fake.calls) == 1


def test_spent_budget_alerts_and_the_job_runs(fake):
    fake.drain("node07", "flightcheck: no-go a: b", age_s=60)
    fake.drain("node08", "flightcheck: no-go a: b", age_s=60)
    decision = drain(fake)
    assert decision.outcome is Drained.OVER_BUDGET
    assert not decision.fail_job
    assert "ALERT" in decision.message
    assert "2 of 2 drains in the window" in decision.message
    assert len(fake.calls) == 1


def test_drains_before_the_window_do_not_count(fake):
    fake.drain("node07", "flightcheck: no-go a: b", age_s=4000)
    fake.drain("node08", "flightcheck: no-go a: b", age_s=4000)
    assert drain(fake).outcome is Drained.DRAINED


def test_own_claim_of_a_prolog_that_died_is_cleared_when_the_budget_is_spent(fake):
    fake.set("node01", comment=f"rack [flightcheck-claim 1 {int(time.time())}]")
    fake.drain("node07", "flightcheck: no-go a: b")
    decision = drain(fake, max_nodes=1)
    assert decision.outcome is Drained.OVER_BUDGET
    assert fake.nodes["node01"]["comment"] == "rack"


@pytest.mark.parametrize("mood", [{"hang": "show"}, {"refuse": "show"}, {"garbage": "show"}])
@pytest.mark.parametrize("policy", ["run-job", "fail-job"])
def test_unreadable_slurm(fake, mood, policy):
    fake.mood(**mood)
    decision = drain(fake, timeout_s=0.3, without_slurm=policy)
    closed = policy == "fail-job"
    assert decision.outcome is (Drained.FAILED_CLOSED if closed else Drained.FAILED_OPEN)
    assert decision.fail_job is closed
    assert TEXT in decision.message
    assert fake.drained == {}
    assert decision.updates == 0


@pytest.mark.parametrize("mood", [{"hang": "update"}, {"refuse": "update"}])
def test_claim_that_can_not_be_written(fake, mood):
    fake.mood(**mood)
    decision = drain(fake, timeout_s=0.3)
    assert decision.outcome is Drained.FAILED_OPEN
    assert not decision.fail_job


def test_seat_taken_but_drain_refused_is_left_to_the_exit_code(fake):
    fake.mood(refuse="drain")
    decision = drain(fake)
    assert decision.outcome is Drained.LEFT_TO_SLURM
    assert decision.fail_job
    # The claim stays, so that Slurm's own drain of this node counts as a seat.
    assert "flightcheck-claim" in fake.nodes["node01"]["comment"]


def test_missing_scontrol_never_raises(fake):
    decision = drain(fake, scontrol="/nowhere/scontrol")
    assert decision.outcome is Drained.FAILED_OPEN
    assert "/nowhere/scontrol" in decision.message


def test_unknown_node_name(fake):
    decision = drain(fake, node="elsewhere")
    assert decision.outcome is Drained.FAILED_OPEN
    assert "listed 8 nodes, but not elsewhere" in decision.message


@pytest.mark.parametrize("left_s", [-1, 0.0, 0.5])
def test_too_little_time_writes_nothing(fake, left_s):
    decision = drain(fake, left_s=left_s)
    assert decision.outcome is Drained.FAILED_OPEN
    assert decision.updates == 0


def test_deadline_in_the_middle_of_the_wait_drains_nothing(fake):
    fake.mood(delay={"update": 0.4})
    decision = drain(fake, left_s=1.9)
    assert decision.outcome is Drained.FAILED_OPEN
    assert fake.drained == {}


def test_claim_written_too_slowly_is_tried_again(fake):
    fake.mood(delay={"update": 1.7})

    def work(number: int) -> str:
        if number == 0:
            return drain(fake).outcome
        time.sleep(1.0)
        fake.mood()
        return ""

    assert in_parallel(2, work)[0] == Drained.DRAINED
    assert sum("flightcheck-claim" in call for call in fake.calls) == 2


def test_forty_nodes_failing_at_once_with_a_budget_of_two(tmp_path):
    fake = FakeSlurm(tmp_path, nodes=40)
    fake.mood(delay={"show": 0.01, "update": 0.01})

    def work(number: int) -> str:
        return drain(fake, f"node{number + 1:02d}", left_s=60, timeout_s=30).outcome

    outcomes = in_parallel(40, work)
    assert len(fake.drained) == 2
    assert outcomes.count(Drained.DRAINED) == 2
    assert outcomes.count(Drained.OVER_BUDGET) == 38
    assert not any("claim" in node.get("comment", "") for node in fake.nodes.values())


def test_three_failing_within_the_budget_are_all_drained(fake):
    def work(number: int) -> str:
        return drain(fake, f"node{number + 1:02d}", left_s=60, timeout_s=30, max_nodes=3).outcome

    assert in_parallel(3, work) == [Drained.DRAINED] * 3
    assert len(fake.drained) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"max_nodes": -1},
        {"max_percent": 101},
        {"max_held_percent": -0.1},
        {"window_s": 0},
        {"timeout_s": 0},
        {"jitter_s": 99},
        {"scontrol": "scontrol"},
    ],
)
def test_impossible_settings_are_refused_by_name(changes):
    (name,) = changes
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert(changes, DrainSettings)


def test_settings_as_shipped_let_the_job_run_where_slurm_does_not_answer():
    assert DrainSettings().without_slurm == "run-job"


def test_import_brings_no_heavy_module():
    script = (
        "import sys, slurm_integration.drain as d;"
        "print(*sorted({'jinja2', 'paramiko', 'torch', 'click', 'ClusterShell', 'logging',"
        " 'asyncio', 'dataclasses'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
