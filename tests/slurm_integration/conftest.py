"""A fake scontrol for every test, and one real cluster for all that are marked `slurm`."""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import slurm_integration
from slurm_integration.drain import Decision
from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.sandbox import cluster

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from fake_scontrol import FakeSlurm  # noqa: E402

REASON = "flightcheck: no-go gpu-count: 7 of 8 GPUs visible (missing 0000:b3:00.0)"


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


class RealCluster:
    """The sandbox cluster in a test's hands."""

    def __init__(self, state: str) -> None:
        self.state = Path(state)

    def run(self, *argv: str) -> str:
        done = cluster.client(str(self.state), *argv)
        assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    def submit(self, *options: str) -> int:
        """Submit a job that says which nodes it ran on; its id."""
        line = 'srun -l sh -c "echo $SLURMD_NODENAME" >/dev/null; echo ran on $SLURM_JOB_NODELIST'
        out = str(self.state / "job-%j.out")
        answer = self.run("sbatch", "--parsable", f"--output={out}", *options, f"--wrap={line}")
        return int(answer)

    def output(self, job: int) -> str:
        path = self.state / f"job-{job}.out"
        return path.read_text() if path.exists() else ""

    def job(self, job: int) -> dict[str, str]:
        words = self.run("scontrol", "-o", "show", "job", str(job)).split()
        return dict(word.partition("=")[::2] for word in words)

    def node(self, name: str) -> NodeState:
        return self.nodes()[name]

    def nodes(self) -> dict[str, NodeState]:
        done = cluster.client(str(self.state), "scontrol", "-a", "-o", "show", "node")
        return {node.name: node for node in parse_nodes(done.stdout)}

    def sicken(self, *names: str, reason: str = REASON) -> None:
        for name in names:
            (self.state / "nodes" / name / "sick").write_text(reason)

    def hold_prolog(self, name: str) -> Path:
        mark = self.state / "nodes" / name / "wait"
        mark.touch()
        return mark

    def settings(self, **settings: object) -> None:
        chosen = {"dry_run": False, "jitter_s": 0.0, **settings}
        (self.state / "drain.json").write_bytes(msgspec.json.encode(chosen))

    def decisions(self, name: str) -> list[Decision]:
        path = self.state / "nodes" / name / "decisions"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line, type=Decision) for line in lines]

    def wait(self, what: Callable[[], object], timeout_s: float = 240) -> None:
        until = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < until, f"not within {timeout_s} s: {self.nodes()}"
            time.sleep(0.1)

    def reset(self) -> None:
        """All jobs gone, all nodes healthy, idle and without marks or comments."""
        for mark in ("wait", "sick", "decisions", "job.json"):
            for path in self.state.glob(f"nodes/*/{mark}"):
                path.unlink()
        self.wait(lambda: cluster.no_jobs(str(self.state)))
        self.wait(lambda: cluster.in_service(str(self.state)))
        self.settings(max_nodes=2, max_percent=100, max_held_percent=100)


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[RealCluster]:
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    # Slurm's socket names are long: pytest's own folders are too deep.
    state = tempfile.mkdtemp(prefix="fc-slurm-", dir="/tmp")
    Path(state).chmod(0o755)
    spec = cluster.ClusterSpec(
        state,
        nodes=8,
        prolog=(sys.executable, str(HERE / "drain_hook.py"), state),
        hook_environment={"PYTHONPATH": str(Path(slurm_integration.__file__).parents[1])},
    )
    try:
        cluster.up(spec)
        yield RealCluster(state)
    finally:
        cluster.down(state)
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def slurm(running_cluster: RealCluster) -> RealCluster:
    running_cluster.reset()
    return running_cluster
