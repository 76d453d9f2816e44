"""`flightcheck profile list`, `show` and `learn`."""

import os

import pytest
from click.exceptions import UsageError
from click.testing import CliRunner

import healthcheck.runner
from healthcheck.commands.profile import command
from healthcheck.model import Ending, Outcome, PciDevice, Report, Snapshot, Verdict, fail
from healthcheck.model.snapshot import encode_snapshot
from healthcheck.profile import BUILTIN_DIR, Profile, load_profile, profile_files

GPU = PciDevice(bus_id="0000:10:00.0", kind="gpu", vendor="0x10de", device="0x9999")


@pytest.fixture
def config(tmp_path):
    """A configuration whose folder of profiles is the test's own."""
    (tmp_path / "site").mkdir()
    path = tmp_path / "flightcheck.toml"
    path.write_text(f'profile_dir = "{tmp_path}/site"\n')
    return path


def run(*args):
    result = CliRunner().invoke(command, [str(a) for a in args], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.output


@pytest.fixture
def judged(monkeypatch):
    """Let the next judgement say this."""

    def say(*findings, snapshot=None):
        def replay(given, request):
            node = snapshot or given
            outcome = Outcome("gpu-count", Ending.FOUND if findings else Ending.PASSED, findings)
            verdict = Verdict.NO_GO if findings else Verdict.GO
            report = Report(verdict, node.node, "h100-sxm", "sweep", 0.1, (outcome,))
            return healthcheck.runner.Result(report, node, Profile("h100-sxm", "H"))

        monkeypatch.setattr(healthcheck.runner, "replay", replay)

    return say


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "snapshot.json"
    path.write_bytes(encode_snapshot(Snapshot("good01", 1_796_083_200.0, pci=(GPU, GPU))))
    return path


def test_list_names_every_profile_on_lines_of_80_columns(config):
    code, said = run("list", "--config", config)
    assert code == 0
    assert {line.split()[0] for line in said.splitlines()} == set(profile_files([BUILTIN_DIR]))
    assert max(map(len, said.splitlines())) <= 80


def test_list_tells_the_sites_own_and_the_refused(config, tmp_path):
    (tmp_path / "site/ours.toml").write_text('name = "ours"\ntitle = "Ours"\n')
    (tmp_path / "site/bad.toml").write_text("nonsense")
    code, said = run("list", "--config", config)
    assert code == 65
    assert f"{tmp_path}/site/ours.toml" in said
    assert "bad            refused:" in said
    assert "bad.toml:1: expected valid TOML" in said


@pytest.mark.parametrize("name", sorted(profile_files([BUILTIN_DIR])))
def test_what_show_prints_loads_again_as_the_same_profile(config, tmp_path, name):
    code, said = run("show", name, "--config", config)
    assert code == 0
    (tmp_path / f"site/{name}.toml").write_text(said)
    mine, builtin = load_profile(name, [f"{tmp_path}/site"]), load_profile(name, [BUILTIN_DIR])
    assert (mine.checks, mine.match, mine.services) == (
        builtin.checks, builtin.match, builtin.services,
    )  # fmt: skip


def test_show_of_an_unknown_name_suggests_one(config):
    code, said = run("show", "h100", "--config", config)
    assert code == 65
    assert "did you mean h100-sxm?" in said


def test_learn_writes_a_profile_that_is_found_by_its_hardware(config, tmp_path, saved, judged):
    judged()
    output = tmp_path / "site/ours.toml"
    code, said = run("learn", "--replay", saved, "--output", output, "--config", config)
    assert code == 0
    assert "flightcheck check --profile ours" in said
    assert "It is used once" not in said
    profile = load_profile("ours", [f"{tmp_path}/site"])
    assert profile.match.pci_device_ids == ("0x9999",)
    assert profile.checks["gpu-count"]["gpus"].value == 2
    assert output.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path / "site") == ["ours.toml"]


def test_learn_prints_where_no_file_is_named_and_names_it_after_the_node(config, saved, judged):
    judged()
    code, said = run("learn", "--replay", saved, "--config", config)
    assert code == 0
    assert 'name = "good01"' in said
    assert "# Not learned: gpu-memory min_gib: NVML gave no GPU" in said


def test_a_sick_node_is_no_model_for_others(config, tmp_path, saved, judged):
    judged(fail("node", "7 of 8 GPUs visible"))
    output = tmp_path / "site/ours.toml"
    code, said = run("learn", "--replay", saved, "--output", output, "--config", config)
    assert code == 65
    assert "fail gpu-count node: 7 of 8 GPUs visible" in said
    assert "--force" in said
    assert not output.exists()
    args = ("learn", "--replay", saved, "--output", output, "--config", config, "--force")
    assert run(*args)[0] == 0
    assert output.exists()


def test_an_existing_file_is_overwritten_only_by_force(config, tmp_path, saved, judged):
    judged()
    output = tmp_path / "ours.toml"
    output.write_text("precious")
    args = ("learn", "--replay", saved, "--output", output, "--config", config)
    code, said = run(*args)
    assert (code, output.read_text()) == (73, "precious")
    assert "--force" in said
    code, said = run(*args, "--force")
    assert code == 0
    assert f"It is used once it lies in {tmp_path}/site" in said


def test_a_folder_that_cannot_be_written_is_said_politely(config, saved, judged):
    judged()
    code, said = run(
        "learn", "--replay", saved, "--output", "/proc/nowhere/ours.toml", "--config", config
    )
    assert code == 73
    assert "/proc/nowhere/ours.toml" in said


def test_a_node_whose_bus_was_not_read_teaches_nothing(config, saved, judged):
    judged(snapshot=Snapshot("good01", 1.0))
    code, said = run("learn", "--replay", saved, "--config", config)
    assert code == 65
    assert "would expect no GPU" in said


@pytest.mark.parametrize(
    "args",
    [
        ("--name", "a/b"),
        ("--name", "ours", "--output", "/tmp/other.toml"),
        ("--output", "/tmp/no-ending"),
        ("--replay", "/nowhere/at/all.json"),
        ("--replay", "/dev/zero"),
    ],
)
def test_wrong_use_is_a_usage_error(config, saved, judged, args):
    judged()
    given = args if "--replay" in args else ("--replay", saved, *args)
    with pytest.raises(UsageError):
        run("learn", "--config", config, *given)


def test_a_file_that_is_no_snapshot_is_a_usage_error(config, tmp_path):
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(UsageError, match="expected a snapshot of version"):
        run("learn", "--config", config, "--replay", tmp_path / "x.json")
