"""A node after a job: its output folder, its Slurm, and the hook that is called there."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

UID = 23_456
FAKE = Path(__file__).parents[2] / "slurm_integration" / "fake_scontrol.py"


@pytest.fixture
def home(tmp_path):
    """The job's folder, its user's own."""
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, UID, UID)
    return home


class Slurm:
    """A scontrol that answers from files and writes down what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "scontrol"
        self.program.write_text(
            "#!/bin/sh\n"
            f'echo "$*" >> {folder}/calls\n'
            'case "$*" in\n'
            f'  *"show job"*) exec cat {folder}/job ;;\n'
            f'  *"show node"*) exec cat {folder}/node ;;\n'
            "esac\n"
        )
        self.program.chmod(0o755)
        self.job()
        (folder / "node").write_text("NodeName=node01 State=ALLOCATED Partitions=gpu\n")

    def job(self, **fields: str) -> None:
        told = {"JobName": "train", "UserId": f"u({UID})", "JobState": "COMPLETING",
                "StartTime": "2026-01-01T00:00:00", "TimeLimit": "1-00:00:00"} | fields  # fmt: skip
        words = " ".join(f"{key}={value}" for key, value in told.items())
        (self.folder / "job").write_text(f"JobId=4711 {words}\n")

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def slurm(tmp_path) -> Slurm:
    folder = tmp_path / "slurm"
    folder.mkdir()
    return Slurm(folder)


@pytest.fixture
def fake_slurm(tmp_path):
    """A stateful slurmctld of eight nodes that knows nodes and drains, and no jobs."""
    spec = importlib.util.spec_from_file_location("fake_scontrol_of_epilog", FAKE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path / "fake"
    folder.mkdir()
    return module.FakeSlurm(folder)


@pytest.fixture
def after(h100, home, slurm):
    """Call the hook on a healthy H100 node after job 4711; `epilog(code="1:0", …)`."""

    def epilog(code="1:0", config="", program=None, **env):
        h100.configure(
            f'{config}\n[drain]\nscontrol = "{program or slurm.program}"\njitter_s = 0\n'
        )
        told = {
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_UID": str(UID),
            "SLURM_JOB_GID": str(UID),
            "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7",
            "SLURM_JOB_NODELIST": "node01",
            "SLURM_JOB_WORK_DIR": str(home),
            "SLURM_JOB_EXIT_CODE2": code,
            "SLURM_SCRIPT_CONTEXT": "epilog_slurmd",
            "SLURMD_NODENAME": "node01",
            "FLIGHTCHECK_CONFIG": str(h100.config),
        }
        return subprocess.run(
            [sys.executable, "-m", "epilog.main"],
            env=h100.environment(**(told | env)),
            capture_output=True,
            text=True,
            timeout=240,
            cwd="/",
        )

    return epilog
