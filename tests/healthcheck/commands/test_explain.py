"""`flightcheck explain`: readable, complete, and honest about what it does not know."""

import click
import msgspec
import pytest
from click.testing import CliRunner

from healthcheck.cli import main
from healthcheck.commands.explain import command
from healthcheck.knowledge import sxids, xids
from healthcheck.model import Baseline
from healthcheck.registry import load_checks


def explain(*words, **options):
    result = CliRunner(env={"COLUMNS": "80"}).invoke(command, [*words], **options)
    assert result.exit_code == 0, result.output
    return result.output


def flat(text):
    return " ".join(text.split())


def test_without_an_argument_every_check_has_a_line():
    text = explain()
    for name in load_checks()[0]:
        assert f"  {name} " in text
    assert "xid N" in text


@pytest.mark.parametrize("words", [("xid", "79"), ("xid79",), ("XID-79",), ("Xid", "79")])
def test_an_xid_is_explained_however_it_is_written(words):
    text = flat(explain(*words))
    for part in (
        "GPU has fallen off the bus",
        "Usually the hardware",
        "no-go, remedy reboot",
        "Check seating",
        "RESTART_BM",
        "NVIDIA Xid catalogue",
    ):
        assert part in text


def test_every_code_is_explained_within_80_columns():
    for kind, codes in (("xid", xids()), ("sxid", sxids())):
        for code in codes:
            text = explain(kind, str(code))
            assert "What to do" in text
            assert max(map(len, text.splitlines())) <= 80


def test_every_check_is_explained_within_80_columns_with_its_source():
    for name, check in load_checks()[0].items():
        text = explain(name, "--profile", "h100-sxm")
        assert max(map(len, text.splitlines())) <= 80, name
        assert "Runs in" in text
        for field in msgspec.structs.fields(check.limits):
            assert f"{field.encode_name} = " in text
        if check.source:
            assert flat(check.source) in flat(text)


def test_the_sections_of_a_check_are_printed():
    text = explain("xid")
    for section in ("What it means", "What we do", "What to do", "Limits", "repeat = 2"):
        assert section in text


def test_figures_come_from_the_profile_with_their_source():
    text = flat(explain("gpu-count", "--profile", "h100-sxm"))
    assert "gpus = 8 (" in text
    assert "profile h100-sxm" in text


def test_site_limits_come_before_the_profile(tmp_path):
    config = tmp_path / "flightcheck.toml"
    config.write_text("[checks.xid.limits]\nrepeat = 7\n")
    config.chmod(0o644)
    text = flat(explain("xid", "--config", str(config)))
    assert "repeat = 7 (site configuration)" in text


def test_the_profile_that_the_node_remembers_is_used(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    (state / "baseline.json").write_bytes(msgspec.json.encode(Baseline(profile="h100-sxm")))
    config = tmp_path / "flightcheck.toml"
    config.write_text(f'state_dir = "{state}"\n')
    config.chmod(0o644)
    assert "profile h100-sxm" in explain("gpu-count", "--config", str(config))
    (state / "baseline.json").write_bytes(b"\x00broken")
    assert "no profile known here" in explain("gpu-count", "--config", str(config))
    assert (state / "baseline.json").exists()


def refusal(*words):
    with pytest.raises(click.UsageError) as told:
        command.main([*words], standalone_mode=False)
    return told.value.message


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("gpu-temprature",), "gpu-temperature"),
        (("xids",), "xid"),
        (("pcie",), "pcie-width"),
        (("zzz",), "lists them all"),
        (("xid", "9999"), "1 to 172"),
        (("xid", "fallen"), "expected a number"),
        (("sxid", "24008"), "24007"),
        (("gpu-count", "--profile", "no-such"), "no-such"),
    ],
)
def test_an_unknown_name_says_what_is_close(words, hint):
    assert hint in refusal(*words)


def test_an_unknown_name_exits_64():
    with pytest.raises(SystemExit) as left:
        main(["explain", "no-such-check"])
    assert left.value.code == 64


def test_underscores_and_spaces_are_forgiven():
    assert explain("gpu_temperature") == explain("gpu", "temperature")
