"""The wrappers by themselves: only a decision of flightcheck's fails a hook."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_integration.hook import FAIL_JOB
from slurm_integration.install.layout import Site, items
from slurm_integration.install.model import Manifest

SHELL = "#!/bin/sh\n"


class Wrapped:
    """One wrapper around a program that a test writes."""

    def __init__(self, folder: Path, hook: str) -> None:
        self.folder = folder
        self.hook = hook
        self.bin = folder / "it's in here"  # quotes: shells trip over them
        self.bin.mkdir()
        self.python = Path(sys.executable)

    @property
    def program(self) -> Path:
        return self.bin / f"flightcheck-{self.hook}"

    def put(self, text: str) -> None:
        self.program.write_text(text)
        self.program.chmod(0o755)

    def run(self, **env: str) -> subprocess.CompletedProcess:
        site = Site("/etc/slurm", str(self.bin), str(self.python), "/var/lib/flightcheck")
        found = {os.path.basename(item.path): item.text for item in items(site, Manifest())}
        script = self.folder / f"{self.hook}.sh"
        script.write_text(found[script.name])
        script.chmod(0o755)
        return subprocess.run(
            [script], env=env, cwd=self.folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip


@pytest.fixture(params=["prolog", "epilog"])
def wrapped(request, tmp_path) -> Wrapped:
    return Wrapped(tmp_path, request.param)


def test_a_decision_to_fail_comes_through(wrapped):
    wrapped.put(SHELL + f"exit {FAIL_JOB}\n")
    assert wrapped.run().returncode == FAIL_JOB


@pytest.mark.parametrize("code", [1, 2, 70, 126])
def test_any_other_code_is_no_decision(wrapped, code):
    wrapped.put(SHELL + f"exit {code}\n")
    done = wrapped.run()
    assert done.returncode == 0
    assert f"ended with {code}" in done.stderr


def test_a_request_to_end_reaches_the_program_and_fails_no_hook(wrapped):
    wrapped.put(SHELL + "kill -TERM $PPID; sleep 0.2; echo went on\n")
    done = wrapped.run()
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_a_good_end_comes_through_with_what_was_said(wrapped):
    wrapped.put(SHELL + "echo flightcheck: go\n")
    done = wrapped.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "flightcheck: go\n", "")


def test_the_program_gets_path_and_home_and_what_slurmd_gave(wrapped):
    wrapped.put(SHELL + 'echo "$HOME $SLURM_JOB_ID"; command -v ls\n')
    assert wrapped.run(SLURM_JOB_ID="7").stdout.startswith("/root 7\n/")


def test_an_installation_that_is_gone_lets_jobs_run_and_says_so(wrapped):
    done = wrapped.run()
    assert done.returncode == 0
    assert "is not there" in done.stderr


def test_an_interpreter_that_is_gone_lets_jobs_run(wrapped):
    wrapped.put("#!/no/such/python3\n")
    done = wrapped.run()
    assert done.returncode == 0
    assert "unknown" in done.stderr


def test_a_package_that_the_interpreter_can_not_load_lets_jobs_run(wrapped):
    """As after an upgrade of the system's Python."""
    wrapped.put(f"#!{sys.executable}\nimport no_such_package\n")
    done = wrapped.run()
    assert done.returncode == 0
    assert "ended with 1" in done.stderr


def test_a_program_that_was_killed_lets_jobs_run(wrapped):
    wrapped.put(SHELL + "kill -9 $$\n")
    done = wrapped.run()
    assert done.returncode == 0
    assert "137" in done.stderr


@pytest.mark.parametrize("hook", ["task-prolog", "health"])
def test_the_others_never_fail_where_nothing_is_there(tmp_path, hook):
    wrapped = Wrapped(tmp_path, hook)
    wrapped.python = tmp_path / "no-python"
    done = wrapped.run()
    assert done.returncode == 0
    assert done.stdout == ""


def test_the_task_prolog_runs_whatever_the_users_environment_is(tmp_path):
    wrapped = Wrapped(tmp_path, "task-prolog")
    done = wrapped.run(
        SLURM_JOB_ID="7", PYTHONHOME="/nowhere", PYTHONPATH="/nowhere", SLURM_JOB_GPUS="0",
        FLIGHTCHECK_ROOT=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0
    assert "export TORCH_" in done.stdout


def test_the_health_program_gets_its_environment(tmp_path):
    wrapped = Wrapped(tmp_path, "health")
    wrapped.put(SHELL + 'echo "$SLURMD_NODENAME $HOME"; exit 0\n')
    assert wrapped.run(SLURMD_NODENAME="node01").stdout == "node01 /root\n"
