"""A fleet: the real Slurm sandbox, a simulated machine for each of its nodes, real sshds."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_integration.sandbox import cluster, sshd
from slurm_integration.sandbox.machine import live
from slurm_integration.sweep.model import Answer, NodeResult, Sweep, decode_sweep

BIN = Path(sys.executable).parent
WRAPPER = """\
#!/bin/sh
# flightcheck on a simulated node: slurmd and our sshds both say which one it is.
root={state}/nodes/$SLURMD_NODENAME/root
export FLIGHTCHECK_ROOT=$root LD_LIBRARY_PATH=$root/{library}
[ -e {state}/nodes/$SLURMD_NODENAME/impostor ] && exec {state}/nodes/$SLURMD_NODENAME/impostor "$@"
exec {bin}/flightcheck "$@"
"""


class Fleet:
    """Eight nodes, all reachable through srun; some through an sshd of their own."""

    def __init__(self, slurm, folder: Path, daemons: dict[str, sshd.Sshd]) -> None:
        self.slurm = slurm
        self.folder = folder
        self.daemons = daemons
        self.program = str(slurm.state / "bin/flightcheck")
        self.config = slurm.state / "sweep.toml"
        self.config.write_text("")
        self.ssh_config = sshd.client_config(folder, daemons)

    def known(self, **keys: str) -> None:
        """Make known_hosts say something else about these nodes."""
        self.ssh_config = sshd.client_config(self.folder, self.daemons, known=keys)

    def root(self, node: str) -> str:
        return str(self.slurm.state / "nodes" / node / "root")

    def break_(self, node: str, fault: str) -> None:
        live.break_machine(self.root(node), fault)

    def impostor(self, node: str, script: str) -> None:
        """Put another program where flightcheck is on this node."""
        path = self.slurm.state / "nodes" / node / "impostor"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def argv(self, *options: str) -> list[str]:
        ours = ["--program", self.program, "--ssh-config", str(self.ssh_config)]
        return [str(BIN / "flightcheck"), "sweep", *ours, "--config", str(self.config), *options]

    def environment(self) -> dict[str, str]:
        # A copy: TERM and COLUMNS of whoever runs the tests must not matter.
        kept = cluster.client_environment(str(self.slurm.state))
        return {**kept, "TERM": "dumb"}

    def run(self, *options: str, timeout: float = 240) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.argv(*options),
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def sweep(self, *options: str) -> tuple[int, Sweep]:
        """Sweep and read its JSON."""
        done = self.run("--json", "-", *options)
        assert done.stdout, done.stderr
        return done.returncode, decode_sweep(done.stdout.encode())


@pytest.fixture(scope="session")
def built_fleet(running_cluster, tmp_path_factory) -> Iterator[Fleet]:
    why = sshd.why_not()
    if why:
        pytest.skip(why)
    state = running_cluster.state
    wrapper = state / "bin/flightcheck"
    text = WRAPPER.format(state=state, library=live.LIBRARY_FOLDER, bin=BIN)
    wrapper.write_text(text)
    wrapper.chmod(0o755)
    names = sorted(path.name for path in (state / "nodes").iterdir())
    for name in names:
        root = state / "nodes" / name / "root"
        shutil.rmtree(root, ignore_errors=True)
        live.build_machine(str(root), "h100-sxm", name)
    folder = Path(tempfile.mkdtemp(prefix="fc-sshd-", dir="/tmp"))
    daemons = {}
    try:
        for name in names[4:]:
            daemons[name] = sshd.start(folder, name, environment={"SLURMD_NODENAME": name})
        yield Fleet(running_cluster, folder, daemons)
    finally:
        for daemon in daemons.values():
            sshd.stop(daemon)
        shutil.rmtree(folder)


@pytest.fixture
def fleet(slurm, built_fleet: Fleet) -> Fleet:
    """All nodes healthy, idle and known."""
    for path in built_fleet.slurm.state.glob("nodes/*/impostor"):
        path.unlink()
    for path in built_fleet.slurm.state.glob("nodes/node*/root"):
        if live.read_record(str(path)).faults:
            live.heal_machine(str(path))
            live.forget_baseline(str(path))
    built_fleet.known()
    built_fleet.config.write_text("")
    return built_fleet


def report(node: str, verdict: str = "go", *findings: tuple[str, str, str, str]) -> dict:
    """A report in the documented form; findings are (severity, check, subject, message)."""
    outcomes = [
        {
            "check": check,
            "outcome": "found",
            "reason": None,
            "findings": [
                {
                    "severity": severity,
                    "subject": subject,
                    "message": message,
                    "measured": None,
                    "expected": None,
                    "action": "none",
                    "source": None,
                }
            ],
        }
        for severity, check, subject, message in findings
    ]
    return {
        "verdict": verdict,
        "node": node,
        "profile": "h100-sxm",
        "stage": "sweep",
        "duration_s": 0.1,
        "notes": [],
        "outcomes": outcomes,
    }


@pytest.fixture
def make_report() -> Callable[..., dict]:
    return report


@pytest.fixture
def make_result() -> Callable[..., NodeResult]:
    """A result: `result("node01", "no-go", ("fail", check, subject, message), facts=…)`."""

    def make(node: str, verdict: str = "go", *findings, answer: str = "reported", **more):
        told = report(node, verdict, *findings) if answer == "reported" else None
        return NodeResult(node, more.pop("transport", "ssh"), Answer(answer), told, **more)

    return make


def as_json(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def uid() -> int:
    return os.geteuid()
