"""The metrics: what they say, their form, and how many there are."""

import os
import shutil
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from healthcheck.model import Ending, Outcome, Report, fail, info, verdict_of, warn
from slurm_integration.metrics.stage import DEEDS, MAX_CHECKS, stage_gauges, write_stage
from slurm_integration.metrics.textfile import Gauge, render, write

NOW = 1_790_000_000.123


def look(*outcomes):
    return Report(verdict_of(outcomes), "node01", "h100-sxm", "prolog", 0.25, outcomes)


SICK = look(
    Outcome("gpu-count", Ending.FOUND, (fail("a", "x"), fail("b", "y"), warn("c", "z"))),
    Outcome("clock", Ending.FOUND, (info("node", "fine"),)),
    Outcome("xid", Ending.PASSED),
    Outcome("power-supplies", Ending.UNMEASURED, reason="no ipmitool"),
)


def series(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def text():
    return render(stage_gauges(SICK, "drain", NOW))


def test_the_verdict_is_one_series_of_four(text):
    found = {
        dict(labels)["verdict"]: value
        for (name, *labels), value in series(text).items()
        if name == "flightcheck_verdict"
    }
    assert found == {"go": 0, "degraded": 0, "no-go": 1, "unknown": 0}


def test_findings_and_blind_checks_are_named(text):
    found = series(text)
    stage = ("stage", "prolog")
    assert found["flightcheck_findings", ("check", "gpu-count"), ("severity", "fail"), stage] == 2
    assert found["flightcheck_findings", ("check", "gpu-count"), ("severity", "warn"), stage] == 1
    blind = ("check", "power-supplies"), ("outcome", "unmeasured"), stage
    assert found["flightcheck_check_unjudged", *blind] == 1
    assert found["flightcheck_checks", ("outcome", "found"), stage] == 2
    assert found["flightcheck_action", ("action", "drain"), stage] == 1
    assert found["flightcheck_duration_seconds", stage] == 0.25
    assert found["flightcheck_last_run_timestamp_seconds", stage] == 1_790_000_000.123
    assert not any("clock" in str(key) for key in found)


def test_a_healthy_node_has_few_series():
    outcomes = tuple(Outcome(f"check-{n}", Ending.PASSED) for n in range(60))
    assert len(series(render(stage_gauges(look(*outcomes), "pass", NOW)))) == 16


def test_the_number_of_series_is_bounded():
    many = tuple(
        Outcome(f"c{n}", Ending.FOUND, (fail("a", "x"), warn("b", "y"))) for n in range(999)
    )
    assert len(series(render(stage_gauges(look(*many), "drain", NOW)))) == 16 + 2 * MAX_CHECKS


def test_what_was_done_is_always_one_of_the_words():
    for deed in DEEDS:
        found = series(render(stage_gauges(SICK, deed, NOW)))
        assert sum(v for (name, *_), v in found.items() if name == "flightcheck_action") == 1


@pytest.mark.parametrize("odd", ['a"b', "a\\b", "a\nb", "ü", "x" * 5000, "\x1b[31m", ""])
def test_odd_labels_stay_one_line_and_readable(odd):
    text = render([Gauge("flightcheck_x", "Help.", [({"profile": odd}, 1)])])
    assert len(text.splitlines()) == 3
    (family,) = text_string_to_metric_families(text)
    told = family.samples[0].labels["profile"]
    assert told == "".join(c if c.isprintable() else "?" for c in odd[:120])


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (Debian: prometheus)")
def test_promtool_finds_no_fault_with_names_and_form(text):
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class TestTheFile:
    def test_it_is_replaced_as_a_whole_and_all_may_read_it(self, tmp_path):
        before = os.umask(0o077)
        try:
            assert write_stage(str(tmp_path), SICK, "drain", NOW) is None
            assert write_stage(str(tmp_path), SICK, "pass", NOW) is None
        finally:
            os.umask(before)
        (path,) = tmp_path.iterdir()
        assert path.name == "flightcheck_prolog.prom"
        assert path.stat().st_mode & 0o777 == 0o644
        assert 'action="pass"} 1' in path.read_text()

    def test_a_folder_that_is_not_there_is_told_and_not_made(self, tmp_path):
        note = write(str(tmp_path / "typo"), "prolog", "x 1\n")
        assert "no metrics were written" in note
        assert list(tmp_path.iterdir()) == []

    def test_a_link_planted_as_the_draft_is_not_followed(self, tmp_path):
        target = tmp_path / "target"
        target.write_text("mine")
        (tmp_path / ".flightcheck_prolog.prom.draft").symlink_to(target)
        assert write(str(tmp_path), "prolog", "x 1\n")
        assert target.read_text() == "mine"

    def test_a_failed_write_leaves_no_draft(self, tmp_path):
        (tmp_path / "flightcheck_prolog.prom").mkdir()
        assert write(str(tmp_path), "prolog", "x 1\n")
        assert [path.name for path in tmp_path.iterdir()] == ["flightcheck_prolog.prom"]


def test_a_prolog_imports_no_client_library():
    code = (
        "import sys; import healthcheck.model, healthcheck.baseline; before = set(sys.modules);"
        "import slurm_integration.metrics.stage;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(
        ["slurm_integration", "slurm_integration.metrics", "slurm_integration.metrics.stage",
         "slurm_integration.metrics.textfile"]
    )  # fmt: skip
