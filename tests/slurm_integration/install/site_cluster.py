"""A real cluster whose slurm.conf names the wrappers that `flightcheck install` put there."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.machine import live

BIN = Path(sys.executable).parent
PROGRAMS = ("prolog", "epilog", "task-prolog", "health")
CONFIG = "dry_run = false\n[drain]\nmax_percent = 100\nmax_held_percent = 100\njitter_s = 0\n"
PROGRAM = """\
#!/bin/sh
echo flightcheck-{name} >> {state}/calls
export FLIGHTCHECK_ROOT={state}/nodes/node01/root FLIGHTCHECK_CONFIG={state}/flightcheck.toml
exec {program} "$@"
"""


class SiteCluster:
    """One node, a folder `site` that stands for the site's own files, and programs of ours."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.site = state / "site"
        self.etc = self.site / "etc/slurm"
        self.home = self.etc / "flightcheck"
        self.programs = state / "programs"
        self.conf = state / "etc/slurm.conf"
        self.base = ""
        self.spec = cluster.ClusterSpec(
            str(state), nodes=1, cred_expire_s=60, extra=tuple(self.lines())
        )

    def put_program(self, name: str) -> None:
        """Our command on the simulated node; where it does not exist yet, one that does nothing."""
        program = BIN / f"flightcheck-{name}"
        path = self.programs / f"flightcheck-{name}"
        path.parent.mkdir(exist_ok=True)
        text = PROGRAM.format(name=name, state=self.state, program=program)
        if not program.exists():
            text = text.replace(f"exec {program}", f"exit 0\nexec {BIN}/flightcheck")
        path.write_text(text)
        path.chmod(0o755)

    def install(self, *options: str) -> subprocess.CompletedProcess:
        argv = ["install", "--root", self.site, "--bin", self.programs, *options]
        return self.flightcheck(*map(str, argv))

    def flightcheck(self, *argv: str, **env: str) -> subprocess.CompletedProcess:
        base = {
            "PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
            "SLURM_CONF": str(self.conf),
            "FLIGHTCHECK_ROOT": f"{self.state}/nodes/node01/root",
            "FLIGHTCHECK_CONFIG": f"{self.state}/flightcheck.toml",
        }
        return subprocess.run(
            [BIN / "flightcheck", *argv],
            env=base | env,
            capture_output=True,
            text=True,
            timeout=240,
        )

    def lines(self) -> list[str]:
        """What a site writes after `flightcheck install`, with paths as they lie here."""
        return [
            f"Prolog={self.home}/prolog.sh",
            f"Epilog={self.home}/epilog.sh",
            f"TaskProlog={self.home}/task-prolog.sh",
            f"HealthCheckProgram={self.home}/health.sh",
            "HealthCheckInterval=300",
            "ReturnToService=1",
        ]

    def configure(self, *lines: str) -> None:
        """slurm.conf as it was made, with these lines instead of its own of the same name."""
        self.conf.write_text(cluster.with_lines(self.base, lines))
        cluster.reconfigure(self.spec)

    def run(self, *argv: str) -> str:
        done = cluster.client(str(self.state), *argv)
        assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    def fly(self) -> str:
        """Run a job on the node; its output, once it is over."""
        out = self.state / "job.out"
        out.unlink(missing_ok=True)
        line = "srun -n1 sh -c 'echo it ran'"
        # The task prolog looks for the verdict below the simulated node's folder.
        root = f"--export=ALL,FLIGHTCHECK_ROOT={self.state}/nodes/node01/root"
        options = (
            "--parsable",
            f"--chdir={self.state}",
            f"--output={out}",
            root,
            "--gpus-per-node=8",
        )
        job = self.run("sbatch", *options, "--wrap", line)
        self.wait(lambda: "JobState=COMPLETED" in self.run("scontrol", "-o", "show", "job", job))
        self.wait(lambda: self.node().base == "IDLE" and not self.node().flags)
        return out.read_text()

    def node(self) -> NodeState:
        shown = self.run("scontrol", "-a", "-o", "show", "node")
        return parse_nodes(shown)[0]

    def calls(self) -> list[str]:
        path = self.state / "calls"
        found = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def wait(self, what: Callable[[], object], timeout_s: float = 240) -> None:
        until = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < until, self.run("scontrol", "show", "node")
            time.sleep(0.1)


@contextmanager
def site_cluster() -> Iterator[SiteCluster]:
    """Up with the installed wrappers; away with everything afterwards."""
    # Slurm's socket names are long: pytest's own folders are too deep.
    state = Path(tempfile.mkdtemp(prefix="fc-site-", dir="/tmp"))
    state.chmod(0o755)
    site = SiteCluster(state)
    try:
        live.build_machine(f"{state}/nodes/node01/root", "h100-sxm", "node01")
        live.take_baseline(f"{state}/nodes/node01/root")
        (state / "flightcheck.toml").write_text(CONFIG)
        site.etc.mkdir(parents=True)
        for name in PROGRAMS:
            site.put_program(name)
        done = site.install()
        assert done.returncode == 0, done.stderr + done.stdout
        cluster.up(site.spec)
        site.base = site.conf.read_text()
        yield site
    finally:
        cluster.down(str(state))
        shutil.rmtree(state, ignore_errors=True)
