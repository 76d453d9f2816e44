"""`flightcheck-prolog` as slurmd calls it: exit codes, what it says, what it never does."""

import json
import os
import stat
import time

import pytest

LOUD = 'dry_run = false\n[drain]\nscontrol = "{scontrol}"\njitter_s = 0\n'


@pytest.fixture
def scontrol(tmp_path):
    """A scontrol that only writes down how it was called."""
    path = tmp_path / "scontrol"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexit 1\n')
    path.chmod(0o755)
    return path


def calls(tmp_path):
    path = tmp_path / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_a_healthy_node_passes_with_one_line(h100, job):
    done = h100.run("flightcheck-prolog", **job)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("flightcheck: go node01 h100-sxm ")
    assert line.endswith("[job 4711]")
    assert done.stderr == ""


def test_the_report_is_left_for_people(h100, job):
    h100.run("flightcheck-prolog", **job)
    path = h100.state / "prolog.json"
    assert json.loads(path.read_text())["verdict"] == "go"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_as_shipped_nothing_is_drained_and_that_is_said(h100, job, scontrol, tmp_path):
    h100.break_("xid-79").configure(f'[drain]\nscontrol = "{scontrol}"\n')
    done = h100.run("flightcheck-prolog", FLIGHTCHECK_CONFIG=str(h100.config), **job)
    assert done.returncode == 0
    assert "dry run" in done.stdout
    assert "nothing" in done.stdout
    assert not [call for call in calls(tmp_path) if "update" in call]


def test_where_slurm_does_not_answer_the_job_runs_and_it_is_said(h100, job, scontrol, tmp_path):
    h100.break_("xid-79").configure(LOUD.format(scontrol=scontrol))
    done = h100.run("flightcheck-prolog", FLIGHTCHECK_CONFIG=str(h100.config), **job)
    assert done.returncode == 0
    assert "ALERT" in done.stdout
    assert "no-go xid" in done.stdout or "no-go gpu" in done.stdout
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "dry_rum = false\n",
        "dry_run = 7\n",
        "deadline_s = -1\n",
        "[checks.no-such]\n",
        "\x00\xff",
        "=",
    ],
)
def test_a_refused_configuration_never_drains(h100, job, tmp_path, scontrol, text):
    h100.break_("xid-79").configure(text + LOUD.format(scontrol=scontrol))
    done = h100.run("flightcheck-prolog", FLIGHTCHECK_CONFIG=str(h100.config), **job)
    assert done.returncode == 0
    assert "flightcheck: unknown node01" in done.stdout
    assert str(h100.config) in done.stdout
    assert calls(tmp_path) == []


def test_a_hung_driver_is_found_in_time_and_named(h100, job):
    h100.break_("nvml-hang")
    begun = time.monotonic()
    done = h100.run("flightcheck-prolog", **job)
    assert time.monotonic() - begun < 8 + 2
    assert "no-go" in done.stdout
    assert "driver-responsive" in done.stdout
    assert "nvml" in done.stdout


def test_it_never_needs_an_environment(h100):
    done = h100.run("flightcheck-prolog")
    assert done.returncode == 0
    assert "go node01" in done.stdout


def test_hostile_job_values_are_told_and_harmless(h100, job):
    job |= {"SLURM_JOB_ID": "47; reboot", "SLURM_JOB_GPUS": "\x1b[31m;-1,99999999999999999999"}
    done = h100.run("flightcheck-prolog", **job)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout


def test_a_bug_of_ours_lets_the_job_run(h100, job, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['healthcheck.runner'] = None\n"
    )
    done = h100.run("flightcheck-prolog", PYTHONPATH=str(tmp_path), **job)
    assert done.returncode == 0
    assert "the prolog itself broke" in done.stderr


def test_a_state_folder_that_cannot_be_written_is_told_and_drains_nothing(h100, job, tmp_path):
    if os.geteuid() == 0:
        # root writes everywhere: a file in place of the folder stands for a broken disk
        blocked = tmp_path / "blocked"
        blocked.write_text("")
        config = f'state_dir = "/../{blocked.name}"\n'
    else:
        config = 'state_dir = "/proc"\n'
    h100.configure(config)
    done = h100.run("flightcheck-prolog", FLIGHTCHECK_CONFIG=str(h100.config), **job)
    assert done.returncode == 0
    assert "growth will be measured from the older baseline" in done.stdout


@pytest.mark.parametrize(
    "rule",
    [
        "import sys; sys.exit(1)",
        "raise RuntimeError",
        "from healthcheck.registry import check\n@check('site-rule')\n"
        "def rule(node, limits):\n    raise SystemExit(1)\n    yield\n",
    ],
)
def test_a_sites_own_rule_that_exits_or_raises_drains_nothing(h100, job, tmp_path, rule):
    """A non-zero exit of a Prolog drains: not even sys.exit in a rule may get that far."""
    (tmp_path / "site_rule.py").write_text(rule)
    dist = tmp_path / "site_checks-1.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: site-checks\nVersion: 1\n")
    (dist / "entry_points.txt").write_text("[flightcheck.checks]\nmine = site_rule\n")
    done = h100.run("flightcheck-prolog", PYTHONPATH=str(tmp_path), **job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "flightcheck: unknown node01" in done.stdout
    assert "error site-rule" in done.stdout


@pytest.mark.parametrize("hook", ["flightcheck-prolog", "flightcheck-epilog"])
def test_no_exit_from_within_reaches_slurm(h100, job, tmp_path, hook):
    (tmp_path / "sitecustomize.py").write_text(
        "import healthcheck.host\n"
        "def leave(root):\n    raise SystemExit(1)\n"
        "healthcheck.host.host_at = leave\n"
    )
    done = h100.run(hook, PYTHONPATH=str(tmp_path), **job)
    assert done.returncode == 0
    assert "itself broke" in done.stderr
