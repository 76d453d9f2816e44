"""The main job, end to end: real sbatch, real slurmd, our prolog, a broken machine."""

import pytest

pytestmark = pytest.mark.slurm


def test_a_lost_gpu_drains_its_node_with_our_reason_and_the_job_completes_elsewhere(flight):
    flight.break_("node02", "xid-79")
    job = flight.submit("-N2", "--gpus-per-node=8")
    flight.wait(lambda: flight.completed(job))

    node = flight.nodes()["node02"]
    assert node.drained
    assert node.reason.startswith("flightcheck: no-go ")
    assert f"[job {job}]" in node.reason
    assert flight.job(job)["Restarts"] == "1"
    assert "ran on node[03-04]" in flight.output(job)
    assert not any(n.held for name, n in flight.nodes().items() if name != "node02")


def test_healthy_nodes_fly_and_slurm_hears_nothing_of_us(flight):
    job = flight.submit("-N4", "--gpus-per-node=8")
    flight.wait(lambda: flight.completed(job))
    assert flight.job(job)["Restarts"] == "0"
    for name, node in flight.nodes().items():
        assert flight.report(name)["verdict"] == "go"
        assert not node.held
        assert not node.comment


def test_a_hung_driver_on_a_real_slurmd_is_drained_by_its_name(flight):
    flight.break_("node01", "nvml-hang")
    job = flight.submit("-N1", "--gpus-per-node=8")
    flight.wait(lambda: flight.completed(job))
    reason = flight.nodes()["node01"].reason
    assert "driver-responsive" in reason
    assert "nvml" in reason
    assert flight.job(job)["Restarts"] == "1"


def test_a_prolog_that_runs_out_of_time_is_unknown_and_the_job_runs(flight):
    flight.configure("deadline_s = 1")
    flight.break_("node01", "nvml-hang")
    job = flight.submit("-N1", "-w", "node01", "--gpus-per-node=8")
    flight.wait(lambda: flight.completed(job))
    assert flight.report("node01")["verdict"] == "unknown"
    endings = {o["check"]: o["outcome"] for o in flight.report("node01")["outcomes"]}
    assert endings["gpu-ecc"] == "timed-out"
    assert flight.job(job)["Restarts"] == "0"
    assert not flight.nodes()["node01"].held


def test_a_refused_configuration_lets_jobs_run_on_any_node(flight):
    flight.configure("no_such_key = 1")
    flight.break_("node01", "xid-79")
    job = flight.submit("-N1", "-w", "node01", "--gpus-per-node=8")
    flight.wait(lambda: flight.completed(job))
    assert flight.report("node01")["verdict"] == "unknown"
    assert any("no_such_key" in note for note in flight.report("node01")["notes"])
    assert not flight.nodes()["node01"].held


def test_in_a_dry_run_nothing_is_drained(flight):
    (flight.state / "flightcheck.toml").write_text("")
    flight.break_("node01", "gpu-missing")
    job = flight.submit("-N1", "-w", "node01", "--gpus-per-node=8")
    flight.wait(lambda: flight.completed(job))
    assert flight.report("node01")["verdict"] == "no-go"
    assert not flight.nodes()["node01"].held


def test_beyond_the_budget_nodes_alert_and_their_jobs_run(flight):
    for name in ("node01", "node02", "node03", "node04"):
        flight.break_(name, "gpu-missing")
    jobs = [
        flight.submit("-N1", "-w", name, "--gpus-per-node=8")
        for name in ("node01", "node02", "node03", "node04")
    ]
    flight.wait(lambda: sum(flight.completed(job) for job in jobs) == 2)
    held = [name for name, node in flight.nodes().items() if node.held]
    assert len(held) == 2
    assert all(flight.nodes()[name].ours for name in held)
    for job in jobs:
        flight.run("scancel", str(job))


def test_somebody_elses_drain_stays_as_it_is(flight):
    flight.break_("node02", "gpu-missing")
    flight.run("scontrol", "update", "NodeName=node02", "State=DRAIN", "Reason=rack work, al")
    before = flight.nodes()["node02"]
    job = flight.submit("-N1", "--gpus-per-node=8")
    flight.wait(lambda: flight.completed(job))
    after = flight.nodes()["node02"]
    assert (after.reason, after.reason_time) == (before.reason, before.reason_time)
