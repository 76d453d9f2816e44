"""A real Slurm cluster whose four nodes are simulated H100 machines, with our own prolog."""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.machine import live

CONFIG = """\
dry_run = false
{top}
[drain]
max_nodes = 2
max_percent = 100
max_held_percent = 100
jitter_s = 0
"""
BIN = Path(sys.executable).parent


class FlightCluster:
    """The cluster in a test's hands."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def root(self, node: str) -> Path:
        return self.state / "nodes" / node / "root"

    def configure(self, top: str = "") -> None:
        (self.state / "flightcheck.toml").write_text(CONFIG.format(top=top))

    def break_(self, node: str, fault: str) -> None:
        live.break_machine(str(self.root(node)), fault)

    def run(self, *argv: str) -> str:
        done = cluster.client(str(self.state), *argv)
        assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    def submit(self, *options: str) -> int:
        line = "srun hostname >/dev/null; echo ran on $SLURM_JOB_NODELIST"
        out = f"--output={self.state}/job-%j.out"
        return int(self.run("sbatch", "--parsable", out, *options, f"--wrap={line}"))

    def output(self, job: int) -> str:
        path = self.state / f"job-{job}.out"
        return path.read_text() if path.exists() else ""

    def job(self, job: int) -> dict[str, str]:
        words = self.run("scontrol", "-o", "show", "job", str(job)).split()
        return dict(word.partition("=")[::2] for word in words)

    def completed(self, job: int) -> bool:
        return self.job(job)["JobState"] == "COMPLETED"

    def nodes(self) -> dict[str, NodeState]:
        shown = cluster.client(str(self.state), "scontrol", "-a", "-o", "show", "node")
        return {node.name: node for node in parse_nodes(shown.stdout)}

    def report(self, node: str) -> dict:
        return json.loads((self.root(node) / "var/lib/flightcheck/prolog.json").read_text())

    def wait(self, what: Callable[[], object], timeout_s: float = 240) -> None:
        until = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < until, f"not within {timeout_s} s: {self.nodes()}"
            time.sleep(0.1)

    def reset(self) -> None:
        """All jobs gone, every node healed and in service, the shipped policy but for dry run."""
        self.wait(lambda: cluster.no_jobs(str(self.state)))
        self.configure()
        for name in self.nodes():
            if live.read_record(str(self.root(name))).faults:
                live.heal_machine(str(self.root(name)))
                live.forget_baseline(str(self.root(name)))
        self.wait(lambda: cluster.in_service(str(self.state)))


@pytest.fixture(scope="session")
def flight_cluster() -> Iterator[FlightCluster]:
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    # Slurm's socket names are long: pytest's own folders are too deep.
    state = Path(tempfile.mkdtemp(prefix="fc-flight-", dir="/tmp"))
    state.chmod(0o755)
    spec = cluster.ClusterSpec(str(state))
    for name in spec.names:
        live.build_machine(f"{state}/nodes/{name}/root", "h100-sxm", name)
    try:
        cluster.up(spec)
        yield FlightCluster(state)
    finally:
        cluster.down(str(state))
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def flight(flight_cluster: FlightCluster) -> FlightCluster:
    flight_cluster.reset()
    return flight_cluster
