"""A real Slurm cluster of simulated nodes with flightcheck's prolog and epilog, for tests."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.machine.live import build_machine

USER, UID = "nobody", 65_534
HOOK = (sys.executable, "-m", "epilog.main")
CONFIG = "dry_run = false\n[drain]\nmax_nodes = 2\nmax_percent = 100\njitter_s = 0\n"


class Flight:
    """A cluster whose nodes have hardware, prologs and epilogs."""

    def __init__(self, state: Path, nodes: int = 2, config: str = CONFIG, **more: object) -> None:
        self.state = state
        self.home = state / "home"
        self.home.mkdir()
        os.chown(self.home, UID, UID)
        path = state / "flightcheck.toml"
        path.write_text(config)
        environment = {
            "FLIGHTCHECK_ROOT": f"{state}/nodes/%n/root",
            "FLIGHTCHECK_CONFIG": str(path),
        }
        spec = cluster.ClusterSpec(
            str(state), nodes=nodes, epilog=HOOK, hook_environment=environment, **more
        )
        for node in spec.names:
            build_machine(str(self.root(node)), "h100-sxm", node)
        cluster.up(spec)

    def root(self, node: str) -> Path:
        """The folder that stands for a node."""
        return self.state / "nodes" / node / "root"

    def sbatch(self, *options: str, wrap: str) -> int:
        """Submit a job; its id."""
        done = cluster.client(str(self.state), "sbatch", "--parsable", *options, f"--wrap={wrap}")
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def job(self, job: int) -> dict[str, str]:
        """What `scontrol show job` says."""
        shown = cluster.client(str(self.state), "scontrol", "-o", "show", "job", str(job)).stdout
        return dict(word.partition("=")[::2] for word in shown.split())

    def wait(self, what: Callable[[], object], seconds: float = 240) -> object:
        """What it gives, once it is true."""
        until = time.monotonic() + seconds
        while not (value := what()):
            assert time.monotonic() < until, self.logs()
            time.sleep(0.2)
        return value

    def report(self, job: int, node: str = "node01", seconds: float = 240) -> dict:
        """The epilog's report.json on the job's first node."""
        path = self.root(node) / f"var/lib/flightcheck/jobs/{job}/report.json"
        self.wait(path.exists, seconds)
        return json.loads(path.read_text())

    def drained(self) -> dict[str, str]:
        """The reason of every drained node."""
        nodes = cluster.status(str(self.state)).nodes
        return {n.name: n.reason or "" for n in nodes if n.drain_flag}

    def logs(self) -> str:
        """The ends of what slurmd and the jobs wrote."""
        logs = sorted(self.state.glob("nodes/*/slurmd.log"))
        logs += sorted(self.home.glob("slurm-*")) + sorted(self.state.glob("torch-*/slurm-*"))
        return "\n".join(f"== {p}\n{p.read_text(errors='replace')[-3000:]}" for p in logs)
