"""The all_reduce test inside a prolog: only where the site wants it, and only once in a while."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

PROLOG = Path(sys.executable).with_name("flightcheck-prolog")


@pytest.fixture
def fly(tmp_path):
    """A prolog on this very machine, which the site says is a node without GPUs."""

    def run(table):
        config = tmp_path / "flightcheck.toml"
        config.write_text(
            f'state_dir = "{tmp_path}/state"\nprofile = "cpu-only"\ndeadline_s = 55\n{table}'
        )
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/root",
            "FLIGHTCHECK_CONFIG": str(config),
            "SLURM_JOB_ID": "5",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_PARTITION": "gpu",
            "SLURMD_NODENAME": "n1",
        }
        done = subprocess.run([PROLOG], env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads((tmp_path / "state/prolog.json").read_text())
        endings = {o["check"]: (o["outcome"], o["reason"]) for o in report["outcomes"]}
        return endings["allreduce-integrity"], report

    return run


def test_it_flies_once_and_not_again_within_its_age(fly):
    table = '[allreduce]\nmode = "quick"\n'
    first, _ = fly(table)
    assert first == ("passed", None)
    (outcome, reason), _ = fly(table)
    assert outcome == "not-applicable"
    assert "passed" in reason


@pytest.mark.parametrize(
    "table",
    ["", '[allreduce]\nmode = "off"\n', '[allreduce]\nmode="quick"\npartitions={gpu="off"}'],
)
def test_where_the_site_does_not_want_it_nothing_is_started(fly, table):
    (outcome, _), report = fly(table)
    assert outcome == "not-applicable"
    assert report["duration_s"] < 30


def test_a_refused_table_runs_nothing_and_is_told(fly):
    (outcome, _), report = fly('[allreduce]\nmode = "fast"\n')
    assert outcome == "unmeasured"
    assert report["verdict"] == "unknown"
    assert any("[allreduce] is refused" in note for note in report["notes"])
