"""What tests of several rooms share: a simulated node, built once and copied."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_integration.sandbox.machine import live

BIN = Path(sys.executable).parent
sys.path.insert(0, str(Path(__file__).parent))  # slurm_flight, for whoever needs a real cluster


class Node:
    """A simulated machine and the commands that look at it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "var/lib/flightcheck"
        self.config = root / "etc/flightcheck/flightcheck.toml"

    def break_(self, fault: str) -> "Node":
        live.break_machine(str(self.root), fault)
        return self

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": f"{BIN}:/usr/bin:/bin", "FLIGHTCHECK_ROOT": str(self.root), **more}

    def run(self, *argv: str, timeout: float = 240, **env: str) -> subprocess.CompletedProcess:
        """Run a command of ours on this node."""
        return subprocess.run(
            [str(BIN / argv[0]), *argv[1:]],
            env=self.environment(**env),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def configure(self, text: str) -> None:
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text)


@pytest.fixture(scope="session")
def h100_template(tmp_path_factory) -> Path:
    """A healthy H100 node that has taken its baseline."""
    root = tmp_path_factory.mktemp("template") / "node01"
    live.build_machine(str(root), "h100-sxm", "node01")
    live.take_baseline(str(root))
    return root


@pytest.fixture
def h100(h100_template, tmp_path) -> Node:
    """A healthy H100 node of one's own."""
    root = tmp_path / "node01"
    shutil.copytree(h100_template, root, symlinks=True)
    return Node(root)


@pytest.fixture
def job() -> dict[str, str]:
    """The environment slurmd gives a prolog, for a job that owns all eight GPUs."""
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_UID": "1000",
        "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7",
        "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
        "SLURMD_NODENAME": "node01",
    }


def pytest_report_header() -> str:
    return f"flightcheck tests as uid {os.geteuid()}"
