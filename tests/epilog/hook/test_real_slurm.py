"""The epilog on a real Slurm cluster of two simulated nodes: a user's fault, and a node's."""

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.machine.live import break_machine, build_machine

pytestmark = pytest.mark.slurm
USER, UID = "nobody", 65_534
HOOK = (sys.executable, "-m", "epilog.main")
CONFIG = "dry_run = false\n[drain]\nmax_nodes = 2\nmax_percent = 100\njitter_s = 0\n"
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


class Flight:
    """A cluster whose nodes have hardware, prologs and epilogs."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.home = state / "home"
        self.home.mkdir()
        os.chown(self.home, UID, UID)
        config = state / "flightcheck.toml"
        config.write_text(CONFIG)
        environment = {
            "FLIGHTCHECK_ROOT": f"{state}/nodes/%n/root",
            "FLIGHTCHECK_CONFIG": str(config),
        }
        spec = cluster.ClusterSpec(str(state), nodes=2, epilog=HOOK, hook_environment=environment)
        for node in spec.names:
            build_machine(str(self.root(node)), "h100-sxm", node)
        cluster.up(spec)

    def root(self, node: str) -> Path:
        return self.state / "nodes" / node / "root"

    def submit(self, program: str) -> int:
        (self.home / "job.py").write_text(program)
        done = cluster.client(
            str(self.state), "sbatch", "--parsable", f"--uid={USER}", f"--chdir={self.home}",
            "--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=8",
            "--wrap=srun -l --kill-on-bad-exit=0 /usr/bin/python3 job.py",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def submit_torch(self, case: str) -> int:
        """Four ranks of torch on two nodes, as root: only root may be able to run our Python."""
        folder = self.state / f"torch-{case}"
        folder.mkdir()
        program = Path(__file__).with_name("faulty_job.py")
        done = cluster.client(
            str(self.state), "sbatch", "--parsable", f"--chdir={folder}",
            "--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=8",
            "--export=ALL,TORCH_FR_BUFFER_SIZE=200,OMP_NUM_THREADS=1",
            f"--wrap=srun -l --kill-on-bad-exit=0 {sys.executable} {program} {case} {folder}",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def wait(self, what, seconds=90.0):
        until = time.monotonic() + seconds
        while not (value := what()):
            assert time.monotonic() < until, self.logs()
            time.sleep(0.2)
        return value

    def report(self, job: int) -> dict:
        path = self.root("node01") / f"var/lib/flightcheck/jobs/{job}/report.json"
        self.wait(path.exists)
        return json.loads(path.read_text())

    def logs(self) -> str:
        logs = sorted(self.state.glob("nodes/*/slurmd.log")) + sorted(self.home.glob("slurm-*"))
        return "\n".join(f"== {p}\n{p.read_text(errors='replace')[-3000:]}" for p in logs)


@pytest.fixture
def flight():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="fc-epi-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield Flight(folder)
    finally:
        cluster.down(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def drained(flight) -> dict[str, str]:
    nodes = cluster.status(str(flight.state)).nodes
    return {n.name: n.reason or "" for n in nodes if n.drain_flag}


def test_a_users_exception_is_explained_and_drains_nobody(flight):
    job = flight.submit(RAISES)
    report = flight.report(job)
    assert report["class"] == "user/python-exception", flight.logs()
    assert report["root"]["ranks"] == [2]
    assert report["root"]["nodes"] == ["node02"]
    assert report["drain"] == "no"
    told = flight.wait(lambda: list(flight.home.glob(f"flightcheck-{job}.txt")))[0]
    assert told.stat().st_uid == UID
    assert "your program" in told.read_text()
    assert drained(flight) == {}


def test_a_gpu_that_is_lost_midway_is_found_on_its_node_and_told_by_the_first(flight):
    job = flight.submit(WAITS)
    flight.wait(lambda: list(flight.home.glob("slurm-*.out")))
    break_machine(str(flight.root("node02")), "xid-79")
    (flight.home / "go").touch()
    report = flight.report(job)
    reasons = flight.wait(lambda: drained(flight))
    assert set(reasons) == {"node02"}
    assert reasons["node02"].startswith("flightcheck: no-go ")
    assert f"[job {job}" in reasons["node02"]
    assert report["category"] == "hardware", json.dumps(report, indent=1)
    assert report["root"]["nodes"] == ["node02"]
    assert report["decision"]["drain"] == ["node02"]


FAULTS = {
    "raise": "user/python-exception",
    "killed": "unknown/sigkill",
    "leaves": "user/desync",
    "shape": "user/desync",
    "op": "user/desync",
    "hang": "user/desync",
}


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_rank_that_went_wrong_is_found_in_real_torch_jobs(flight):
    """torchrun itself names the right rank in about half of such cases."""
    for case, klass in FAULTS.items():
        report = flight.report(flight.submit_torch(case))
        told = (case, report["class"], report["root"], report["drain"], report["steps"])
        assert report["root"]["ranks"] == [2], told
        assert report["root"]["nodes"] == ["node02"], told
        assert report["class"] == klass, told
        assert report["drain"] != "yes", told
    assert drained(flight) == {}
