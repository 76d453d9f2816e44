"""The health program on a simulated node: between jobs, beside a job, on a node that is out."""

import fcntl
import json
import os

import pytest

from healthcheck.baseline import load_baseline
from healthcheck.event_log import read_since

SLURMD = {"SLURMD_NODENAME": "node01"}


def look(node, **env):
    return node.run("flightcheck-health", **SLURMD, **env)


def counters(node) -> dict:
    baseline, _ = load_baseline(str(node.state))
    assert baseline is not None
    return baseline.counters


def test_a_healthy_node_is_go_in_one_line_and_leaves_a_report(h100):
    done = look(h100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("flightcheck: go node01 h100-sxm ")
    assert len(done.stdout.splitlines()) == 1
    report = json.loads((h100.state / "health.json").read_bytes())
    assert (report["stage"], report["verdict"]) == ("health", "go")


def test_the_node_is_called_as_slurm_calls_it(h100):
    done = h100.run("flightcheck-health", SLURMD_NODENAME="gpu-a-17")
    assert "go gpu-a-17 " in done.stdout


@pytest.mark.parametrize(
    ("fault", "check"), [("xid-79", "xid"), ("ib-flap", "ib-flap"), ("ecc-uncorrected", "gpu-ecc")]
)
def test_what_happens_between_jobs_is_found_said_and_kept(h100, fault, check):
    look(h100)
    h100.break_(fault)
    done = look(h100)
    assert done.returncode == 0
    assert "no-go node01" in done.stdout and f" {check} " in done.stdout
    assert "dry run" in done.stdout
    events = read_since(str(h100.state)).events
    assert any(event.check == check and event.stage == "health" for event in events)


def test_beside_a_job_nothing_is_taken_from_what_its_epilog_has_to_see(h100, job):
    """Growth below a limit, twice: the epilog must see the sum."""
    h100.run("flightcheck-prolog", **job)
    before = (h100.state / "baseline.json").read_bytes()
    h100.break_("ib-flap-once")
    done = look(h100)
    assert done.returncode == 0
    assert (h100.state / "baseline.json").read_bytes() == before
    h100.run("flightcheck-epilog", **job)
    after = (h100.state / "baseline.json").read_bytes()
    assert after != before
    look(h100)
    assert (h100.state / "baseline.json").read_bytes() != after  # no job any more


def test_a_fault_during_a_job_is_still_the_epilogs_to_find(h100, job):
    h100.run("flightcheck-prolog", **job)
    h100.break_("xid-79")
    assert "no-go" in look(h100).stdout
    done = h100.run("flightcheck-epilog", **job)
    assert "no-go node01" in done.stdout and " xid " in done.stdout


def test_a_second_run_at_once_leaves_quietly(h100):
    h100.state.mkdir(exist_ok=True)
    with (h100.state / "health.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = look(h100)
    assert (done.returncode, done.stderr) == (0, "")
    assert "another health run" in done.stdout
    assert "go node01" in look(h100).stdout


def test_a_link_in_the_locks_place_is_not_followed_and_stops_nothing(h100, tmp_path):
    target = tmp_path / "precious"
    (h100.state / "health.lock").symlink_to(target)
    assert "go node01" in look(h100).stdout
    assert not target.exists()


def test_a_refused_configuration_drains_nothing(h100):
    h100.break_("xid-79")
    h100.configure("dry_run = false\nno_such_key = 1\n")
    done = look(h100, FLIGHTCHECK_CONFIG=str(h100.config))
    assert done.returncode == 0
    assert "no_such_key" in done.stdout and "drained" not in done.stdout.replace(
        "nothing will be drained", ""
    )


def test_metrics_are_written_where_they_are_wanted(h100, tmp_path):
    h100.configure(f'metrics_dir = "{tmp_path}"\n')
    look(h100, FLIGHTCHECK_CONFIG=str(h100.config))
    text = (tmp_path / "flightcheck_health.prom").read_text()
    assert 'stage="health"' in text


def test_a_healthy_run_makes_no_slurm_call(h100, tmp_path):
    """A scontrol that would be found writes down that it was called."""
    called = tmp_path / "called"
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho x >> {called}\n")
    scontrol.chmod(0o755)
    h100.configure(f'dry_run = false\n[drain]\nscontrol = "{scontrol}"\n')
    look(h100, FLIGHTCHECK_CONFIG=str(h100.config))
    assert not called.exists()
    h100.break_("xid-79")
    look(h100, FLIGHTCHECK_CONFIG=str(h100.config))
    assert called.exists()
    assert os.access(scontrol, os.X_OK)
