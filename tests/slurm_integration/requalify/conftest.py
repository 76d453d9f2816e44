"""Small makers for the tests of requalify."""

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

sys.path.insert(0, str(Path(__file__).parent))


class HealingCluster:
    """A real Slurm cluster of simulated nodes in a test's hands."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def root(self, node: str) -> str:
        return f"{self.state}/nodes/{node}/root"

    def run(self, *argv: str) -> str:
        done = cluster.client(str(self.state), *argv)
        assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    def nodes(self) -> dict[str, NodeState]:
        shown = cluster.client(str(self.state), "scontrol", "-a", "-o", "show", "node")
        return {node.name: node for node in parse_nodes(shown.stdout)}

    def drain_by_prolog(self, faults: dict[str, str]) -> None:
        """Break nodes, and let a job on each meet our prolog."""
        jobs = []
        for node, fault in faults.items():
            live.break_machine(self.root(node), fault)
            options = ("-w", node, "--gpus-per-node=8", "--output=/dev/null", "--wrap=true")
            jobs.append(self.run("sbatch", "--parsable", *options))
        self.wait(lambda: all(self.nodes()[node].ours for node in faults))
        for job in jobs:
            self.run("scancel", job)
        self.wait(lambda: all(self.nodes()[node].drained for node in faults))

    def heal(self, *nodes: str) -> None:
        for node in nodes:
            live.heal_machine(self.root(node))

    def wait(self, what: Callable[[], object], timeout_s: float = 240) -> None:
        until = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < until, f"not within {timeout_s} s: {self.nodes()}"
            time.sleep(0.1)


CONFIG = """\
dry_run = false
[drain]
max_nodes = 8
max_percent = 100
max_held_percent = 100
jitter_s = 0
"""


@pytest.fixture(scope="session")
def healing() -> Iterator[HealingCluster]:
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    # Slurm's socket names are long: pytest's own folders are too deep.
    state = Path(tempfile.mkdtemp(prefix="fc-requal-", dir="/tmp"))
    state.chmod(0o755)
    # From 23.11 on a ping is enough to bring a DOWN node back by itself, unless this is 0.
    extra = ("RebootProgram=/bin/true", "ReturnToService=0")
    spec = cluster.ClusterSpec(str(state), nodes=8, extra=extra)
    for name in spec.names:
        live.build_machine(f"{state}/nodes/{name}/root", "h100-sxm", name)
        live.take_baseline(f"{state}/nodes/{name}/root")
    (state / "flightcheck.toml").write_text(CONFIG)
    try:
        cluster.up(spec)
        yield HealingCluster(state)
    finally:
        cluster.down(str(state))
        shutil.rmtree(state, ignore_errors=True)
