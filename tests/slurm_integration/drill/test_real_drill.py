"""The drill on a real Slurm cluster, at a size that fits: one fault and one must-pass a stage."""

import re
import subprocess
import time

import pytest
from click.testing import CliRunner

from healthcheck.registry import STAGES
from slurm_integration.commands.drill import command
from slurm_integration.drill.cluster import play_on_slurm, slurm_cases
from slurm_integration.drill.model import End
from slurm_integration.sandbox import cluster

pytestmark = pytest.mark.slurm


@pytest.fixture(autouse=True)
def can_run():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)


def test_slurms_own_hooks_find_a_fault_at_every_stage_and_pass_what_must_pass():
    faults = ["ib-flap", "edac-old", "gpu-missing"]
    played = list(play_on_slurm(slurm_cases(["h100-sxm"], STAGES, faults)))
    assert [one for one in played if not one.good] == []
    for stage in STAGES:
        ends = {one.case.fault: one.end for one in played if one.case.stage == stage}
        wanted = {"ib-flap": End.FOUND, "edac-old": End.PASSED, "gpu-missing": End.FOUND}
        assert ends == wanted
    drained = [one for one in played if one.case.fault != "edac-old"]
    assert {one.decision for one in drained} == {"drain"}


def test_an_interrupted_drill_leaves_nothing_running():
    before = _folders()
    playing = play_on_slurm(slurm_cases(["cpu-only"], ["prolog"], ["disk-full"]))
    next(playing)
    playing.close()
    until = time.monotonic() + 240
    while (left := _folders() - before) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == set()


def _folders() -> set[str]:
    """Folders of drills that some process is at work in."""
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return set(re.findall(r"/tmp/fc-drill-\w+", done.stdout))


def test_two_types_are_not_one_cluster():
    argv = ["--slurm", "--type", "h100-sxm", "--type", "h200-sxm"]
    done = CliRunner().invoke(command, argv, standalone_mode=False)
    assert "one --type" in str(done.exception)
