"""`flightcheck check`: the forms and exit codes that others rely on."""

import json

import jsonschema
import pytest

from healthcheck.report.schema import schema


@pytest.mark.parametrize(
    ("fault", "code", "verdict"),
    [(None, 0, "go"), ("row-remap-pending", 1, "degraded"), ("gpu-missing", 2, "no-go")],
)
def test_exit_codes_are_the_verdict(h100, fault, code, verdict):
    if fault:
        h100.break_(fault)
    done = h100.run("flightcheck", "check", "--json")
    assert done.returncode == code, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == verdict
    jsonschema.validate(report, schema())


def test_a_blind_node_is_unknown(h100):
    (h100.root / "dev/kmsg").unlink()
    done = h100.run("flightcheck", "check")
    assert done.returncode == 3
    assert "UNKNOWN" in done.stdout
    assert "unmeasured xid" in done.stdout


@pytest.mark.parametrize(
    "argv",
    [["check", "--no-such-option"], ["check", "--only", "gpu-cuont"], ["check", "--stage", "x"],
     ["check", "--replay", "/nonexistent"], ["check", "--replay", "/proc/self/cmdline"],
     ["no-such-command"], ["check", "--save", "/nonexistent/x"]],
)  # fmt: skip
def test_a_usage_error_is_64_and_never_a_verdict(h100, argv):
    done = h100.run("flightcheck", *argv)
    assert done.returncode == 64, done.stdout + done.stderr
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelt_check_is_answered_with_the_right_name(h100):
    assert "gpu-count" in h100.run("flightcheck", "check", "--only", "gpu-cuont").stderr


def test_only_and_skip_choose_checks(h100):
    only = json.loads(h100.run("flightcheck", "check", "--only", "xid,gpu-count", "--json").stdout)
    assert [o["check"] for o in only["outcomes"]] == ["gpu-count", "xid"]
    rest = json.loads(h100.run("flightcheck", "check", "--skip", "xid", "--json").stdout)
    assert "xid" not in [o["check"] for o in rest["outcomes"]]
    assert len(rest["outcomes"]) > 30


def test_a_saved_snapshot_is_judged_alike_anywhere(h100, tmp_path):
    h100.break_("xid-79")
    saved = tmp_path / "snapshot.json"
    first = json.loads(h100.run("flightcheck", "check", "--save", str(saved), "--json").stdout)
    h100.root.rename(tmp_path / "gone")
    again = json.loads(
        h100.run("flightcheck", "check", "--replay", str(saved), "--json",
                 FLIGHTCHECK_ROOT="/").stdout
    )  # fmt: skip
    for report in (first, again):
        del report["duration_s"]
    assert again == first


def test_a_look_by_hand_does_not_move_the_baseline(h100):
    before = (h100.state / "baseline.json").read_bytes()
    h100.run("flightcheck", "check", "--stage", "prolog")
    assert (h100.state / "baseline.json").read_bytes() == before


@pytest.mark.parametrize(
    ("option", "begins"), [("--nagios", "FLIGHTCHECK OK - go"), ("--prometheus", "# HELP")]
)
def test_other_programs_read_it_too(h100, option, begins):
    done = h100.run("flightcheck", "check", option)
    assert done.returncode == 0
    assert done.stdout.startswith(begins)


def test_the_job_of_the_environment_is_judged_by_hand_too(h100, job):
    h100.break_("leftover-process")
    done = h100.run("flightcheck", "check", "--stage", "prolog", "--json", **job)
    found = {o["check"] for o in json.loads(done.stdout)["outcomes"] if o["outcome"] == "found"}
    assert "gpu-leftovers" in found


def test_this_machine_gets_an_honest_verdict(h100):
    done = h100.run("flightcheck", "check", "--json", FLIGHTCHECK_ROOT="")
    assert done.returncode in (0, 1, 2, 3)
    report = json.loads(done.stdout)
    assert report["outcomes"]
    assert not [o for o in report["outcomes"] if o["outcome"] == "error"]


def test_help_is_helpful(h100):
    done = h100.run("flightcheck", "--help")
    assert done.returncode == 0
    for word in ("check", "explain", "drains", "sandbox"):
        assert word in done.stdout
