"""The epilog on a real Slurm cluster of two simulated nodes: a user's fault, and a node's."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from slurm_flight import CONFIG, UID, USER, Flight

from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.machine.live import break_machine

pytestmark = pytest.mark.slurm
RAISES = """\
import os, sys, time
rank = int(os.environ["SLURM_PROCID"])
if rank == 2:
    raise ValueError("a shape that does not fit")
time.sleep(1)
sys.exit("RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.3]:51234")
"""
WAITS = """\
import os, sys, time
until = time.monotonic() + 60
while not os.path.exists("go") and time.monotonic() < until:
    time.sleep(0.1)
sys.exit("RuntimeError: CUDA error: unspecified launch failure")
"""


def submit(flight: Flight, program: str, *options: str, srun: str = "srun -l") -> int:
    """Four tasks of a program on two nodes, as a user without rights."""
    (flight.home / "job.py").write_text(program)
    return flight.sbatch(
        f"--uid={USER}", f"--chdir={flight.home}", "--nodelist=node01,node02",
        "--ntasks-per-node=2", "--gpus-per-node=8", *options,
        wrap=f"{srun} --kill-on-bad-exit=0 /usr/bin/python3 job.py",
    )  # fmt: skip


TASK_PROLOG = """\
#!/bin/sh
# Only root may be able to run this Python.
[ "$(id -u)" = 0 ] || exit 0
FLIGHTCHECK_ROOT={state}/nodes/$SLURMD_NODENAME/root exec {python} -m prolog.task
"""


@pytest.fixture(scope="module")
def running():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="fc-epi-", dir="/tmp"))
    folder.chmod(0o755)
    script = folder / "task-prolog"
    script.write_text(TASK_PROLOG.format(state=folder, python=sys.executable))
    script.chmod(0o755)
    try:
        yield Flight(folder, nodes=3, config=CONFIG, extra=(f"TaskProlog={script}",))
    finally:
        cluster.down(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def hung_job(running) -> tuple[int, Path]:
    """A job on the third node that hangs, while the other tests run, until its minute is over."""
    folder = running.state / "hung"
    folder.mkdir()
    os.chown(folder, UID, UID)
    (folder / "job.py").write_text(HANGS)
    job = running.sbatch(
        f"--uid={USER}", f"--chdir={folder}", "--nodelist=node03", "--ntasks=2", "--requeue",
        "--gpus-per-node=8", "--time=1", wrap="srun -l /usr/bin/python3 job.py",
    )  # fmt: skip
    return job, folder


@pytest.fixture
def flight(running, hung_job):
    yield running
    for name in running.drained():
        heal(running, name)
    for left in running.home.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def heal(flight: Flight, name: str) -> None:
    from slurm_integration.sandbox.machine.live import forget_baseline, heal_machine

    heal_machine(str(flight.root(name)))
    forget_baseline(str(flight.root(name)))
    cluster.client(str(flight.state), "scontrol", "update", f"NodeName={name}", "State=RESUME")


def test_a_users_exception_is_explained_and_drains_nobody(flight):
    job = submit(flight, RAISES)
    report = flight.report(job)
    assert report["class"] == "user/python-exception", flight.logs()
    assert report["root"]["ranks"] == [2]
    assert report["root"]["nodes"] == ["node02"]
    assert report["drain"] == "no"
    told = flight.wait(lambda: list(flight.home.glob(f"flightcheck-{job}.txt")))[0]
    assert told.stat().st_uid == UID
    assert "your program" in told.read_text()
    assert flight.drained() == {}


def test_a_gpu_that_is_lost_midway_is_found_on_its_node_and_told_by_the_first(flight):
    job = submit(flight, WAITS)
    flight.wait(lambda: list(flight.home.glob("slurm-*.out")))
    break_machine(str(flight.root("node02")), "xid-79")
    (flight.home / "go").touch()
    report = flight.report(job)
    reasons = flight.wait(flight.drained)
    assert set(reasons) == {"node02"}
    assert reasons["node02"].startswith("flightcheck: no-go ")
    assert f"[job {job}" in reasons["node02"]
    assert report["category"] == "hardware", json.dumps(report, indent=1)
    assert report["root"]["nodes"] == ["node02"]
    assert report["decision"]["drain"] == ["node02"]


HANGS = """\
import os, time
rank = int(os.environ["SLURM_PROCID"])
print(f"[rank{rank}]: step 7 done", flush=True)
time.sleep(300)
"""


def test_a_cancelled_job_is_told_so_and_nothing_follows(flight):
    job = submit(flight, HANGS, "--requeue")
    flight.wait(lambda: any(p.read_text() for p in flight.home.glob("slurm-*.out")))
    cluster.client(str(flight.state), "scancel", str(job))
    report = flight.report(job)
    assert report["class"] == "scheduler/cancelled", json.dumps(report, indent=1)
    flight.wait(lambda: flight.job(job)["JobState"] == "CANCELLED")
    assert flight.drained() == {}


def test_a_job_that_only_says_it_was_cancelled_ended_well(flight):
    """The words stand in a file that its user writes: Slurm is asked, and knows better."""
    joke = "slurmstepd: error: *** JOB 1 ON node01 CANCELLED AT 2026-12-01T00:00:00 ***"
    job = submit(flight, f"print({joke!r}, flush=True)\n", srun="srun")
    flight.wait(lambda: flight.job(job)["JobState"] == "COMPLETED")
    flight.wait(lambda: "State=IDLE " in cluster.client(
        str(flight.state), "scontrol", "-o", "show", "node", "node01").stdout)  # fmt: skip
    assert not (flight.root("node01") / f"var/lib/flightcheck/jobs/{job}").exists()


MAPPED = """\
import os, sys, time
rank = int(os.environ["SLURM_PROCID"])
if rank == 1:
    sys.exit("[rank1]: ValueError: a shape that does not fit")
time.sleep(1)
sys.exit(f"[rank{rank}]: RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.3]:51234")
"""


def test_the_rank_map_of_the_task_prolog_leads_the_epilog_to_the_node(flight):
    """Ranks are dealt out in turn and the log names no host: only the map knows them."""
    folder = flight.state / "mapped"
    folder.mkdir()
    (folder / "job.py").write_text(MAPPED)
    job = flight.sbatch(
        f"--chdir={folder}", "--nodelist=node01,node02", "--ntasks-per-node=2", "--gpus-per-node=8",
        f"--output={folder}/slurm.out",
        wrap="srun -m cyclic --kill-on-bad-exit=0 -e slurm.out --open-mode=append "
        f"{sys.executable} job.py 2>/dev/null",
    )  # fmt: skip
    report = flight.report(job)
    maps = sorted(path.name for path in folder.glob(f"flightcheck-{job}/ranks-*.jsonl"))
    assert len(maps) == 2, maps
    told = (folder / "slurm.out").read_text().splitlines()
    assert not any("node0" in line for line in told if not line.startswith("flightcheck: "))
    assert report["root"]["ranks"] == [1], json.dumps(report, indent=1)
    assert report["root"]["nodes"] == ["node02"], json.dumps(report, indent=1)


def test_a_job_that_slurm_ended_at_its_time_limit_is_explained_and_runs_no_second_time(
    flight, hung_job
):
    """Its exit code is 0, as of a job that ended well."""
    job, folder = hung_job
    report = flight.report(job, "node03", seconds=150)
    assert report["class"] == "scheduler/time-limit", json.dumps(report, indent=1)
    assert report["drain"] == "no"
    flight.wait(lambda: flight.job(job)["JobState"] == "TIMEOUT")
    assert flight.job(job)["Restarts"] == "0"
    flight.wait((folder / f"flightcheck-{job}.txt").exists)
    assert "time limit" in (folder / f"flightcheck-{job}.txt").read_text()
    assert flight.drained() == {}
