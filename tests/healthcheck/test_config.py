"""The configuration: strict, safe by default, and never a reason to drain by being wrong."""

import os
import re
from datetime import date
from pathlib import Path

import pytest

import healthcheck
from healthcheck.config import (
    SECTIONS,
    CheckSettings,
    Config,
    DrainSettings,
    check_faults,
    load_config,
    section,
    section_type,
)

EXAMPLE = Path(healthcheck.__file__).parent / "data" / "flightcheck.toml"

NONE_BY_DEFAULT = (
    "scontrol", "interpreter", "shared_dir", "metrics_dir", "history_db", "seats_dir"
)  # fmt: skip


@pytest.fixture
def config(tmp_path):
    def load(text, **options):
        path = tmp_path / "flightcheck.toml"
        path.write_text(text)
        loaded, notes, refused = load_config(str(path), **options)
        return loaded, [note.removeprefix(f"{path}") for note in notes], refused

    return load


def test_a_missing_file_means_the_defaults_without_a_word(tmp_path):
    assert load_config(str(tmp_path / "absent.toml")) == (Config(), [], False)


def test_an_empty_file_means_the_defaults(config):
    assert config("") == (Config(), [], False)


def test_a_first_install_drains_nothing():
    assert Config().dry_run is True
    assert Config().on_unknown == "run"


def test_the_example_is_accepted_and_equals_the_defaults():
    assert load_config(str(EXAMPLE)) == (Config(), [], False)


def test_the_example_with_its_comments_taken_away_is_accepted_too(config):
    """Each commented-out key is real, so that uncommenting one never refuses the file."""
    lines = EXAMPLE.read_text().splitlines()
    keys = [line[1:] for line in lines if line.startswith("#") and not line.startswith("# ")]
    text = "\n".join(key for key in keys if key.strip())
    loaded, notes, refused = config(text)
    assert (notes, refused) == ([], False)
    told = re.findall(r"^#(\w+) = ", EXAMPLE.read_text(), re.MULTILINE)
    tables = [(Config, loaded), (DrainSettings, loaded.drain)]
    tables += [(section_type(name), section(loaded, name)) for name in SECTIONS]
    for kind, values in tables:
        for field in set(kind.__struct_fields__) - {"drain", "checks", "requeue", *SECTIONS}:
            assert field in told, f"{field} is not in the example"
            if field not in NONE_BY_DEFAULT:
                assert getattr(values, field) == getattr(kind(), field), field


def test_a_site_sets_what_it_wants(config):
    loaded, notes, refused = config(
        'dry_run = false\nmounts = ["/scratch"]\n[drain]\nmax_nodes = 2\n'
        "[checks.gpu-temperature]\nwaive_until = 2030-12-31\n"
        "limits = { warn_c = 70, fail_c = 75 }\n"
    )
    assert (notes, refused) == ([], False)
    assert loaded.mounts == ("/scratch",)
    assert loaded.drain.max_nodes == 2
    assert loaded.checks["gpu-temperature"] == CheckSettings(
        waive_until=date(2030, 12, 31), limits={"warn_c": 70, "fail_c": 75}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dry_rum = true", ": expected a known key, found 'dry_rum'; did you mean dry_run?"),
        ('dry_run = "false"', ": expected true or false, found 'false'; remove the quotes"),
        ("dry_run = 0", ":1: dry_run: expected true or false, found 0"),
        ("deadline_s = 0", ": expected a number of at least 1 and at most 55, found 0"),
        ("deadline_s = 9e99", ":1: deadline_s: expected a number of at least 1"),
        ("deadline_s = nan", ":1: deadline_s: expected a finite number, found nan"),
        ('on_unknown = "explode"', ":1: on_unknown: expected one of 'run', 'requeue'"),
        ('state_dir = "relative"', ":1: state_dir: expected an absolute path such as /scratch"),
        ('state_dir = "/a\\u0000b"', ":1: state_dir: expected an absolute path"),
        ('profile = "../../etc/passwd"', ":1: profile: expected a name of letters, digits"),
        ("mounts = 3", ":1: mounts: expected a list"),
        ('services = ["a b"]', ":1: services[0]: expected a name of letters, digits"),
        ("[drain]\nmax_percent = 101", ":2: drain.max_percent: expected a number of at least 0"),
        ("[drain]\nmax_nodes = -1", ":2: drain.max_nodes: expected a whole number of at least 0"),
        ("[drain]\nmax_nodes = 1.5", "found 1.5; give a whole number"),
        ("[checks.gpu-tmperature]", ":1: checks.gpu-tmperature: expected a known check"),
        ("[checks.gpu-tmperature]", "did you mean gpu-temperature?"),
        ("[checks.gpu-count]\nwaive_until = 5", "expected a date such as 2030-12-31, found 5"),
        ("[checks.gpu-count]\naction = 'reboot'", "expected one of 'drain', 'requeue', 'alert'"),
        ("[checks.gpu-count.limits]\ngpu = 8", ":2: checks.gpu-count.limits.gpu: expected a known"),
        ("[checks.gpu-count.limits]\ngpus = 0", "expected a whole number of at least 1"),
        ("[checks.gpu-temperature.limits]\nwarn_c = 90\nfail_c = 80",
         ":1: checks.gpu-temperature.limits: expected values that fit together"),
        ("[checks.sxid.limits]\nx = 1", "there is nothing to set here; remove it"),
        ("checks = 3", ":1: checks: expected a table, found 3"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_refused_with_line_key_and_advice(config, text, said):
    loaded, notes, refused = config(text)
    assert refused
    assert loaded == Config()
    assert said in notes[0], notes
    assert notes[-1].endswith("built-in defaults are in force and nothing will be drained")


def test_an_unreadable_configuration_is_refused_and_not_taken_for_a_missing_one(tmp_path):
    loaded, notes, refused = load_config(str(tmp_path))
    assert (loaded, refused) == (Config(), True)
    assert "found a directory" in notes[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads what others could have changed")
def test_root_takes_no_configuration_that_others_may_change(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("dry_run = false\n")
    path.chmod(0o666)
    loaded, notes, refused = load_config(str(path))
    assert (loaded.dry_run, refused) == (True, True)
    assert "chmod 644" in notes[0]


def test_names_of_checks_can_be_verified_later(config, tmp_path):
    text = "[checks.nonsense]\nenabled = false\n"
    loaded, notes, refused = config(text, verify=False)
    assert (notes, refused) == ([], False)
    (note,) = check_faults(loaded, str(tmp_path / "flightcheck.toml"))
    assert ":1: checks.nonsense: expected a known check, found 'nonsense'" in note


def test_a_right_configuration_costs_no_second_look_at_the_checks(config, monkeypatch):
    import healthcheck.registry

    def never():
        raise AssertionError("the checks were loaded")

    monkeypatch.setattr(healthcheck.registry, "load_checks", never)
    assert config("dry_run = false")[2] is False


def test_a_table_of_a_check_whose_module_is_broken_is_no_typo(config, monkeypatch):
    import healthcheck.registry

    monkeypatch.setattr(
        healthcheck.registry, "load_checks", lambda: ({}, {"healthcheck.checks.x": "SyntaxError"})
    )
    assert config("[checks.gpu-count]\nenabled = false\n")[2] is False


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[epilog]\nread_log = true", ":2: epilog.read_log: expected a known key"),
        ("[epilog]\ndeadline_s = 0", ":2: epilog.deadline_s: expected"),
        ('[epilog.requeue]\nmost = "x"', ":2: epilog.requeue.most: expected"),
        ('[allreduce]\nmode = "on"', ":2: allreduce.mode: expected"),
        ("[requalify]\npasses = 0", ":2: requalify.passes: expected"),
    ],
)
def test_a_table_of_another_room_is_held_to_that_rooms_rules(config, text, told):
    loaded, notes, refused = config(text)
    assert refused
    assert loaded == Config()
    assert told in notes[0]


def test_a_prolog_does_not_load_other_rooms_for_their_tables(config):
    assert config("[epilog]\nread_logs = false", verify=False)[2] is False
