"""HealthCheckProgram of a real Slurm: faults between jobs and beside one."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from slurm_flight import CONFIG, Flight

from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.machine.live import break_machine

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def flight():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    state = Path(tempfile.mkdtemp(prefix="fc-health-", dir="/tmp"))
    state.chmod(0o755)
    try:
        health = (sys.executable, "-m", "slurm_integration.health.main")
        yield Flight(
            state,
            nodes=3,
            config=CONFIG + "max_held_percent = 100\n",
            health=health,
            health_interval_s=2,
        )
    finally:
        cluster.down(str(state))
        shutil.rmtree(state, ignore_errors=True)


def test_slurmd_runs_it_and_healthy_nodes_stay(flight):
    for node in ("node01", "node02", "node03"):
        flight.wait((flight.root(node) / "var/lib/flightcheck/health.json").exists)
    assert flight.drained() == {}


def test_a_fault_between_jobs_drains_the_node_before_a_job_meets_it(flight):
    break_machine(str(flight.root("node02")), "xid-79")
    reason = flight.wait(lambda: flight.drained().get("node02"))
    assert reason.startswith("flightcheck: no-go "), reason
    assert "[job" not in reason


def test_a_fault_beside_a_job_drains_the_node_and_the_job_goes_on(flight):
    done = flight.state / "the-job-may-end"
    job = flight.sbatch(
        "--chdir=/tmp", "--output=/dev/null", "--nodelist=node03", "--gpus-per-node=8",
        wrap=f"srun sh -c 'until [ -e {done} ]; do sleep 0.2; done'",
    )  # fmt: skip
    flight.wait(lambda: flight.job(job)["JobState"] == "RUNNING")
    break_machine(str(flight.root("node03")), "ecc-uncorrected")
    reason = flight.wait(lambda: flight.drained().get("node03"))
    assert "gpu-ecc" in reason
    assert flight.job(job)["JobState"] == "RUNNING"
    done.touch()
    flight.wait(lambda: flight.job(job)["JobState"] == "COMPLETED")
    assert flight.drained()["node03"] == reason  # the epilog found the same, and changed nothing


def test_somebody_elses_drain_keeps_its_reason(flight):
    cluster.client(str(flight.state), "scontrol", "update", "NodeName=node01", "State=DRAIN",
                   "Reason=cooling works")  # fmt: skip
    break_machine(str(flight.root("node01")), "xid-79")
    report = flight.root("node01") / "var/lib/flightcheck/health.json"
    flight.wait(lambda: '"no-go"' in report.read_text())
    flight.wait(lambda: flight.drained().get("node01"))
    assert flight.drained()["node01"] == "cooling works"
