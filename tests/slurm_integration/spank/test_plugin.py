"""The SPANK plugin by itself: what it exports, refuses and records, under the sanitizers."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from epilog.task_exits import parse_record, read_record

SOURCES = Path(__file__).parents[3] / "slurm_integration/spank"
HARNESS = Path(__file__).with_name("harness.c")
pytestmark = pytest.mark.skipif(
    not os.path.exists("/usr/include/slurm/spank.h") or shutil.which("cc") is None,
    reason="no Slurm headers or no compiler; on Debian: apt-get install libslurm-dev gcc",
)


@pytest.fixture(scope="module")
def harness(tmp_path_factory) -> Path:
    program = tmp_path_factory.mktemp("spank") / "harness"
    sources = [SOURCES / name for name in ("flightcheck.c", "options.c", "task_record.c")]
    subprocess.run(
        ["cc", "-std=c11", "-g", "-O1", "-fno-omit-frame-pointer",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}",
         "-Wall", "-Wextra", "-Werror", "-U_FORTIFY_SOURCE", "-o", str(program),
         *map(str, sources), str(HARNESS)],
        check=True,
    )  # fmt: skip
    return program


def run(harness: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([harness, *words], capture_output=True, text=True, timeout=60)


def test_it_exports_only_what_slurm_asks_for(tmp_path):
    subprocess.run(["make", "-s", "-C", str(SOURCES), f"OUT={tmp_path}"], check=True)
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", str(tmp_path / "flightcheck.so")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert {line.split()[-1] for line in shown.stdout.splitlines()} == {
        "plugin_name", "plugin_type", "plugin_version", "spank_plugin_version",
        "slurm_spank_init", "slurm_spank_init_post_opt", "slurm_spank_task_exit",
    }  # fmt: skip


@pytest.mark.parametrize("value", ["off", "quick", "full"])
def test_its_three_values_are_taken(harness, value):
    done = run(harness, "option", value)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("value", ["", "OFF", "on", "quick ", "%s%n", "x" * 5000])
def test_any_other_value_is_refused_with_what_was_expected(harness, value):
    done = run(harness, "option", value)
    assert done.returncode == 1
    assert "expected off, quick or full" in done.stderr
    assert len(done.stderr) < 200


def test_a_default_of_the_users_environment_is_carried_where_it_makes_sense(harness):
    assert run(harness, "environment", "full").stdout == "FLIGHTCHECK_PREFLIGHT=full\n"
    odd = run(harness, "environment", "fulll")
    assert odd.stdout == "\n" and "ignored" in odd.stderr


def test_the_end_of_each_task_is_one_line_that_only_root_can_change(harness, tmp_path):
    folder = tmp_path / "tasks"
    assert run(harness, "exit", str(folder), "node01", "20").returncode == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (path,) = folder.iterdir()
    assert path.name == "4711.node01"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ends = read_record(str(folder), 4711, "node01")
    assert [end.rank for end in ends] == list(range(20))
    assert {(end.signal, end.exit_code, end.fact) for end in ends} == {(11, None, True)}
    assert [end.at for end in ends] == sorted(end.at for end in ends)


@pytest.mark.parametrize("node", ["../../etc/cron.d/x", "a/b", "", "..", "n" * 400])
def test_a_node_that_is_no_name_writes_nothing(harness, node, tmp_path):
    folder = tmp_path / "tasks"
    done = run(harness, "exit", str(folder), node, "2")
    assert done.returncode == 0
    assert list(folder.iterdir()) in ([], [folder / "4711..."])


@pytest.mark.parametrize("lay", ["link", "fifo", "folder", "hard link", "others", "full"])
def test_something_else_in_the_records_place_is_left_alone(harness, lay, tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir(mode=0o700)
    target, record = tmp_path / "precious", folder / "4711.node01"
    target.write_text("precious")
    if lay == "link":
        record.symlink_to(target)
    elif lay == "hard link":
        os.link(target, record)
    elif lay == "fifo":
        os.mkfifo(record)
    elif lay == "folder":
        record.mkdir()
    elif lay == "others":
        record.write_text("")
        record.chmod(0o666)
    else:
        with record.open("wb") as file:
            file.truncate(4 << 20)
    done = run(harness, "exit", str(folder), "node01", "3")
    assert done.returncode == 0
    assert done.stderr.count("is not recorded") == 1  # once, not once a task
    assert target.read_text() == "precious"
    assert read_record(str(folder), 4711, "node01") == ()


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_may_write_is_not_used(harness, mode, tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    folder.chmod(mode)
    done = run(harness, "exit", str(folder), "node01", "1")
    assert done.returncode == 0 and "not permitted" in done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("seed", range(6))
def test_no_call_of_slurms_with_whatever_arguments_breaks_it(harness, seed, tmp_path):
    """Under AddressSanitizer and UBSan: what they find ends the process with another code."""
    done = run(harness, "storm", str(tmp_path / "tasks"), str(seed), "3000")
    assert done.returncode == 0, done.stderr[-3000:]
    names = {path.name.partition(".")[2] for path in (tmp_path / "tasks").iterdir()}
    assert names <= {"node01", ".", ".."}


def test_lines_that_nobody_of_ours_wrote_are_passed_over():
    text = "1 0 2 0 77 139 1700000000.000000001\n2 0 3 0 77 9 1.0\nrm -rf /\n\x00\xff\n1 0 4 0 77\n"
    (end,) = parse_record(text, "node01")
    assert (end.rank, end.signal, end.at) == (2, 11, 1700000000.000000001)


def test_the_last_step_that_ended_badly_is_the_one():
    text = (
        "1 0 0 0 1 256 100.000000000\n"  # a preflight that failed and was caught
        "1 1 0 0 1 9 200.000000000\n1 1 1 0 1 0 201.000000000\n"
        "1 2 0 0 1 0 300.000000000\n"
    )
    assert [(end.rank, end.signal, end.exit_code) for end in parse_record(text, "n")] == [
        (0, 9, None), (1, None, 0),
    ]  # fmt: skip
