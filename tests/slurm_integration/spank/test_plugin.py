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


SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"


def build(folder: Path, *more: str) -> Path:
    """The plugin by its own Makefile and the harness that loads it, both with the sanitizers."""
    flags = f"CFLAGS={SANITIZERS} -U_FORTIFY_SOURCE {' '.join(more)}"
    subprocess.run(["make", "-s", "-C", str(SOURCES), f"OUT={folder}", flags], check=True)
    program = folder / "harness"
    subprocess.run(
        ["cc", "-std=c11", *SANITIZERS.split(), "-rdynamic", "-Wall", "-Wextra", "-Werror",
         "-o", str(program), str(HARNESS), "-ldl"],
        check=True,
    )  # fmt: skip
    return program


@pytest.fixture(scope="module")
def harness(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("spank"))


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """With bounds that a test reaches: 1,000 bytes a record, eight records."""
    return build(tmp_path_factory.mktemp("small"), "-DFC_MAX_RECORD=1000", "-DFC_MAX_RECORDS=8")


def loads(harness: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "FLIGHTCHECK_PLUGIN": str(harness.parent / "flightcheck.so")}


def run(harness: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [harness, *words], capture_output=True, text=True, timeout=240, env=loads(harness)
    )


def test_without_slurms_headers_make_says_what_to_install(tmp_path):
    done = subprocess.run(
        ["make", "-s", "-C", str(SOURCES), f"OUT={tmp_path}", f"SLURM_PREFIX={tmp_path}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"found no {tmp_path}/include/slurm/spank.h: install libslurm-dev" in done.stderr


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


@pytest.mark.parametrize("lay", ["link", "fifo", "folder", "hard link", "others"])
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
    else:
        record.write_text("")
        record.chmod(0o666)
    done = run(harness, "exit", str(folder), "node01", "3")
    assert done.returncode == 0
    assert done.stderr.count("is not recorded") == 1  # once, not once a task
    assert target.read_text() == "precious"
    assert read_record(str(folder), 4711, "node01") == ()


def test_a_job_of_many_steps_keeps_its_last_ends_in_bounded_space(small, tmp_path):
    folder = tmp_path / "tasks"
    assert run(small, "exit", str(folder), "node01", "500").stderr == ""
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert set(sizes) == {"4711.node01", "4711.node01~"}
    assert all(size <= 1000 + 100 for size in sizes.values())
    ranks = [end.rank for end in read_record(str(folder), 4711, "node01")]
    assert ranks == list(range(ranks[0], 500))
    assert len(ranks) >= 20


def test_a_link_in_the_place_of_what_was_full_is_replaced_and_not_followed(small, tmp_path):
    folder, target = tmp_path / "tasks", tmp_path / "precious"
    folder.mkdir(mode=0o700)
    target.write_text("precious")
    (folder / "4711.node01~").symlink_to(target)
    run(small, "exit", str(folder), "node01", "100")
    assert target.read_text() == "precious"
    assert not (folder / "4711.node01~").is_symlink()


def test_where_no_epilog_takes_records_away_no_more_are_begun(small, tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir(mode=0o700)
    for job in range(9):
        (folder / f"{job}.node01").touch(mode=0o600)
    done = run(small, "exit", str(folder), "node01", "3")
    assert done.returncode == 0
    assert done.stderr.count("flightcheck-epilog should have taken away") == 1
    assert len(list(folder.iterdir())) == 9
    (folder / "0.node01").unlink()
    assert run(small, "exit", str(folder), "node01", "1").stderr == ""
    assert (folder / "4711.node01").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system of its own, which is root's")
def test_a_full_disk_costs_the_record_and_nothing_else(harness, tmp_path):
    fill = 'mount -t tmpfs -o size=8k,mode=700 none "$1" && head -c 8192 /dev/zero > "$1/fill"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{fill}; exec "$2" exit "$1" node01 3', "sh",
         str(tmp_path), str(harness)],
        capture_output=True, text=True, timeout=240, env=loads(harness),
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.count("No space left on device; the exit of a task is not recorded") == 1
    assert list(tmp_path.iterdir()) == []


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
