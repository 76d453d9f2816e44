"""`flightcheck config check` and `config show`."""

import msgspec
import pytest
from click.testing import CliRunner

from healthcheck.commands.config import command
from healthcheck.config import CONFIG_PATH, SECTIONS, Config, load_config, section


def run(*args):
    result = CliRunner().invoke(command, list(args), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.output


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.delenv("FLIGHTCHECK_CONFIG", raising=False)

    def file(text):
        path = tmp_path / "flightcheck.toml"
        path.write_text(text)
        return str(path)

    return file


def test_an_accepted_file_says_so_and_whether_anything_is_drained(write):
    assert run("check", write("")) == (0, f"{write('')}: accepted (dry run: nothing is drained)\n")
    assert "failing nodes are drained" in run("check", write("dry_run = false"))[1]


def test_a_missing_file_is_no_fault(write, tmp_path):
    code, said = run("check", str(tmp_path / "absent.toml"))
    assert code == 0
    assert "not there; the built-in defaults are in force" in said


def test_a_refused_file_never_exits_with_a_verdicts_code(write):
    path = write("dry_run = 1\nmounts = [2]\n")
    code, said = run("check", path)
    assert code == 65
    assert f"{path}:1: dry_run: expected true or false, found 1" in said
    assert f"{path}:2: mounts[0]: expected an absolute path" in said


def test_limits_that_do_not_fit_a_profiles_figures_are_found(write):
    """Alone 200 °C is a possible limit; with the profile's failure below it, it is not."""
    code, said = run("check", write("[checks.gpu-temperature.limits]\nwarn_c = 140\n"))
    assert code == 65
    assert "checks.gpu-temperature.limits: with profile h100-sxm:" in said


def test_a_profile_that_does_not_exist_is_found(write):
    code, said = run("check", write('profile = "h100sxm"\n'))
    assert code == 65
    assert "did you mean h100-sxm?" in said


def test_show_prints_every_key_with_where_it_comes_from(write):
    path = write("\ndry_run = false\n[checks.gpu-count]\nlimits = { gpus = 4 }\n")
    code, said = run("show", path)
    lines = {line.split(" #")[0].strip(): line for line in said.splitlines()}
    assert code == 0
    assert lines["dry_run = false"].endswith(f"# {path}:2")
    assert lines['on_unknown = "run"'].endswith("# default")
    assert lines["limits = { gpus = 4 }"].endswith(f"# {path}:4")
    assert "[checks.gpu-count]" in said
    assert all(field in said for field in Config.__struct_fields__)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[epilog]\nread_logs = false\n[epilog.requeue]\nmost = 1\n",
        'dry_run = false\nmounts = ["/a b"]\n[drain]\nscontrol = "/x"\nmax_percent = 2\n',
        "[checks.gpu-temperature]\nwaive_until = 2030-01-02\nwaive_reason = 'a \"b\" \\ c'\n"
        "limits.warn_c = 80\nlimits.fail_c = 89\n[checks.xid]\naction = 'alert'\n",
    ],
)
def test_what_show_prints_is_a_configuration_that_means_the_same(write, text):
    path = write(text)
    wanted = meaning(path)
    code, said = run("show", path)
    assert code == 0
    assert meaning(write(said)) == wanted


def meaning(path):
    """What a configuration comes to, the tables of other rooms included."""
    config, notes, refused = load_config(path)
    rooms = {name: section(config, name) for name in SECTIONS}
    bare = msgspec.structs.replace(config, **{name: {} for name in SECTIONS})
    return bare, rooms, notes, refused


def test_show_of_a_refused_file_prints_the_defaults_and_says_why(write):
    code, said = run("show", write("nonsense = 1\n"))
    assert code == 65
    assert "expected a known key, found 'nonsense'" in said
    assert "dry_run = true" in said


def test_the_file_in_etc_is_the_default(write):
    assert CONFIG_PATH in run("check")[1]
