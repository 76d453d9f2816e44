"""The task prolog: what it prints for slurmstepd, and the rank map it leaves for the epilog."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from epilog.model import RankPlace
from healthcheck.model import (
    Ending,
    Finding,
    Gpu,
    Job,
    Outcome,
    Report,
    Severity,
    Snapshot,
    Verdict,
)
from prolog import task
from prolog.task_settings import TaskPrologSettings
from slurm_integration.verdict_file import leave_verdict, line, remove_verdict

SOURCE = Path(task.__file__).parents[1]
UUID = {"0": "GPU-00000000-aaaa", "1": "GPU-11111111-bbbb", "4": "GPU-44444444-cccc"}


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Task 5 of a job with 4 tasks and 4 GPUs on each of two nodes; this is the second node."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return {
        "FLIGHTCHECK_ROOT": str(tmp_path / "root"),
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "5",
        "SLURM_NTASKS": "8",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
        "SLURMD_NODENAME": "node02",
        "SLURM_TASK_PID": "9001",
        "SLURM_STEP_GPUS": "0,1,4,5",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
    }


def report(*findings: Finding, verdict: Verdict = Verdict.GO, node: str = "node02") -> Report:
    ending = Ending.FOUND if findings else Ending.PASSED
    outcome = Outcome("gpu-count", ending, findings=findings)
    return Report(verdict, node, "h100-sxm", "prolog", 0.0912, (outcome,))


def leave(env: dict[str, str], told: Report, **settings: object) -> None:
    gpus = tuple(
        Gpu(index, f"0000:{index}b:00.0", minor_number=int(minor), uuid=uuid)
        for index, (minor, uuid) in enumerate(UUID.items())
    )
    seen = Snapshot(node=told.node, taken_at=0.0, gpus=gpus)
    leave_verdict(told, Job(4711), seen, dict(settings), env["FLIGHTCHECK_ROOT"])


def exports(lines: list[str]) -> dict[str, str]:
    told = (one.removeprefix("export ") for one in lines if one.startswith("export "))
    return dict(one.split("=", 1) for one in told)


def prints(lines: list[str]) -> list[str]:
    return [one.removeprefix("print ") for one in lines if one.startswith("print ")]


def rank_map(name: str = "ranks-0-0-node02.jsonl") -> list[dict[str, object]]:
    path = Path("flightcheck-4711", name)
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_the_flight_recorder_is_armed_under_old_and_new_names(env: dict[str, str]) -> None:
    dump = f"{os.getcwd()}/flightcheck-4711/fr_"
    assert exports(task.prepare(env)) == {
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": dump,
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": dump,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    }
    assert os.stat("flightcheck-4711").st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"])
def test_what_the_user_set_under_either_name_is_left_alone(env: dict[str, str], name: str) -> None:
    told = exports(task.prepare({**env, name: "0"}))
    assert "TORCH_FR_BUFFER_SIZE" not in told
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" not in told
    assert "TORCH_FR_DUMP_TEMP_FILE" in told


def test_the_site_switches_it_off_or_on_for_all_and_adds_what_costs_time(
    env: dict[str, str],
) -> None:
    leave(env, report(), flight_recorder="off", rank_map="off")
    assert exports(task.prepare(env)) == {}
    assert os.listdir() == []
    leave(env, report(), flight_recorder="always", nan_check=True, buffer=7, desync_debug=True)
    bare = {k: v for k, v in env.items() if "GPU" not in k and "CUDA" not in k}
    told = exports(task.prepare(bare))
    assert told["TORCH_NCCL_NAN_CHECK"] == told["TORCH_NCCL_DESYNC_DEBUG"] == "1"
    assert told["TORCH_FR_BUFFER_SIZE"] == "7"


def test_a_job_without_gpus_gets_nothing_and_no_folder(env: dict[str, str]) -> None:
    bare = {k: v for k, v in env.items() if "GPU" not in k and "CUDA" not in k}
    assert task.prepare(bare) == []
    assert os.listdir() == []


def test_a_folder_that_cannot_be_made_leaves_the_dumps_where_torch_puts_them(
    env: dict[str, str],
) -> None:
    Path("flightcheck-4711").write_text("a file is in the way")
    told = exports(task.prepare(env))
    assert "TORCH_FR_DUMP_TEMP_FILE" not in told
    assert told["TORCH_FR_BUFFER_SIZE"] == "2000"


def test_the_rank_map_is_what_the_epilog_reads(env: dict[str, str]) -> None:
    leave(env, report())
    task.prepare(env)
    assert msgspec.convert(rank_map()[0], RankPlace) == RankPlace(5, "node02", 1, UUID["1"], 9001)
    task.prepare({**env, "SLURM_LOCALID": "2", "SLURM_PROCID": "6"})
    assert [one["rank"] for one in rank_map()] == [5, 6]
    assert rank_map()[1]["gpu_uuid"] == UUID["4"]


def test_a_restarted_job_and_a_later_step_have_maps_of_their_own(env: dict[str, str]) -> None:
    task.prepare({**env, "SLURM_RESTART_COUNT": "2", "SLURM_STEP_ID": "3"})
    assert [one["rank"] for one in rank_map("ranks-2-3-node02.jsonl")] == [5]


def test_a_launcher_with_several_gpus_is_no_rank(env: dict[str, str]) -> None:
    task.prepare({**env, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_PROCID": "1"})
    told = rank_map()[0]
    assert "rank" not in told
    assert told["label"] == 1
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(told, RankPlace)


@pytest.mark.parametrize(
    ("visible", "given", "local", "uuid"),
    [
        ("0,1,2,3", "0,1,4,5", 0, UUID["0"]),
        ("0,1,4,5", "0,1,4,5", 2, UUID["4"]),
        ("4", "0,1,4,5", 2, UUID["4"]),
        ("0", "4", 3, UUID["4"]),
        ("0", "0,1,4,5", 1, None),
        ("GPU-feed-beef", "0,1", 0, "GPU-feed-beef"),
        ("GPU-a,GPU-b", "0,1", 1, "GPU-b"),
        ("0,1", "0,1,4,5", 1, None),
        ("0,1,2,3", "nonsense", 1, None),
        ("7", "0-7", 7, None),
        ("", "", 0, None),
    ],
)
def test_a_gpu_is_named_only_where_it_is_certain(
    visible: str, given: str, local: int, uuid: str | None
) -> None:
    words = [word for word in visible.split(",") if word]
    assert task.gpu_of({"SLURM_STEP_GPUS": given}, words, local, UUID) == uuid


@pytest.mark.parametrize(
    ("text", "node", "tasks"),
    [("4(x2),3", 1, 4), ("4(x2),3", 2, 3), ("8", 0, 8), ("8", 1, 1), ("x(", 0, 1), ("", 0, 1)],
)
def test_tasks_on_this_node(text: str, node: int, tasks: int) -> None:
    env = {"SLURM_NODEID": str(node), "SLURM_STEP_TASKS_PER_NODE": text}
    assert task.tasks_here(env) == tasks


def first(env: dict[str, str], **more: str) -> dict[str, str]:
    return {**env, "SLURM_LOCALID": "0", "SLURM_NODEID": "0", **more}


def test_the_verdict_is_told_by_the_jobs_first_task_in_one_line(env: dict[str, str]) -> None:
    leave(env, report())
    told = "flightcheck: node02 is go (1 checks in 0.09 s)"
    assert prints(task.prepare(first(env))) == [told]
    assert prints(task.prepare(env)) == []
    assert prints(task.prepare(first(env, SLURM_STEP_ID="1"))) == []
    assert prints(task.prepare(first(env, SLURM_NODEID="1"))) == []


def test_every_node_that_is_not_go_is_told_of(env: dict[str, str]) -> None:
    finding = Finding(Severity.WARN, "0000:1b:00.0", "81 °C, expected below 80 °C")
    leave(env, report(finding, verdict=Verdict.DEGRADED))
    words = "flightcheck: node02 is degraded: gpu-count 0000:1b:00.0: 81 °C, expected below 80 °C"
    assert prints(task.prepare(first(env, SLURM_NODEID="1"))) == [words]


def test_the_batch_script_tells_and_its_steps_do_not_repeat_it(env: dict[str, str]) -> None:
    leave(env, report())
    batch = {k: v for k, v in first(env).items() if k != "SLURM_STEP_ID"}
    lines = task.prepare(batch)
    assert len(prints(lines)) == 1
    assert prints(task.prepare(first(env, **exports(lines)))) == []


@pytest.mark.parametrize("tell", ["off", "node"])
def test_how_much_is_told_is_the_sites_choice(env: dict[str, str], tell: str) -> None:
    leave(env, report(), tell=tell)
    assert len(prints(task.prepare(first(env, SLURM_NODEID="1")))) == (tell == "node")


def test_a_refused_table_arms_nothing_and_still_tells_the_verdict(env: dict[str, str]) -> None:
    leave(env, report(), flight_recorder="yes please")
    lines = task.prepare(first(env))
    assert exports(lines) == {}
    assert len(prints(lines)) == 1


def test_no_variable_of_the_job_can_begin_another_line(env: dict[str, str]) -> None:
    evil = "4711\nexport LD_PRELOAD=/tmp/evil.so"
    for name in env:
        if name == "FLIGHTCHECK_ROOT":
            continue
        done = run({**env, name: evil})
        assert "LD_PRELOAD" not in done.stdout
        assert done.returncode == 0


def test_a_working_folder_with_a_newline_is_not_exported(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a\nexport X=1"
    odd.mkdir()
    monkeypatch.chdir(odd)
    done = run(env)
    assert "export X" not in done.stdout
    assert "TORCH_FR_DUMP_TEMP_FILE" not in done.stdout


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]", b"{", b'{"settings": 3}', b"9" * 99])
def test_a_damaged_verdict_file_cancels_no_task(env: dict[str, str], content: bytes) -> None:
    folder = Path(env["FLIGHTCHECK_ROOT"] + task.FOLDER)
    folder.mkdir(parents=True)
    (folder / "4711").write_bytes(content)
    done = run(env)
    assert done.returncode == 0
    assert "LD_" not in done.stdout


def test_the_verdict_file_is_everybodys_to_read_and_goes_with_the_job(
    env: dict[str, str],
) -> None:
    old = os.umask(0o077)
    try:
        leave(env, report())
    finally:
        os.umask(old)
    folder = Path(env["FLIGHTCHECK_ROOT"] + task.FOLDER)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "4711").stat().st_mode & 0o777 == 0o644
    remove_verdict(4711, env["FLIGHTCHECK_ROOT"])
    remove_verdict(4711, env["FLIGHTCHECK_ROOT"])
    assert list(folder.iterdir()) == []


def test_escapes_of_a_finding_do_not_reach_the_users_terminal() -> None:
    told = line(
        report(Finding(Severity.FAIL, "gpu\x1b[31m", "a\nexport X=1"), verdict=Verdict.NO_GO)
    )
    assert told == "node02 is no-go: gpu-count gpu : a export X=1"


def test_the_defaults_are_those_of_the_settings() -> None:
    assert msgspec.to_builtins(TaskPrologSettings()) == task.DEFAULTS


def test_it_imports_the_standard_library_alone(env: dict[str, str]) -> None:
    code = (
        "import sys, os; import prolog.task as t; t.prepare(os.environ); "
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('msgspec', 'click', 'healthcheck', 'epilog', 'slurm_integration', 'tomllib', "
        "'subprocess', 'logging', 'dataclasses', 'pathlib')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**env, "PYTHONPATH": str(SOURCE)}, capture_output=True,
        text=True, timeout=240,
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stderr


def run(env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "prolog.task"], env={**env, "PYTHONPATH": str(SOURCE)},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
