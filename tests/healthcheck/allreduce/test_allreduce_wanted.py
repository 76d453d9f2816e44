"""Before a job: when the test runs, and what it leaves for the next time."""

import os
import sys
import time

import msgspec
import pytest

from healthcheck.allreduce.choose import CannotChoose, choose, visible
from healthcheck.allreduce.environment import child_environment, plan_environment, untrusted
from healthcheck.allreduce.history import (
    FILE,
    MOST,
    History,
    Run,
    load_history,
    remember,
    with_usual,
)
from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, BusBandwidth, Plan
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.allreduce.shapes import make_plan
from healthcheck.allreduce.stage import remember_flight, run_for_stage
from healthcheck.allreduce.wanted import NotWanted, places, wanted
from healthcheck.host import LocalHost, RecordedHost
from healthcheck.model import Gpu, Job, PciDevice, Snapshot

NOW = 1_800_000_000.0
GPUS = tuple(
    Gpu(7 - n, f"0000:{n + 1:02x}:00.0", uuid=f"GPU-{n:04x}", minor_number=n,
        memory_total_bytes=80 << 30)
    for n in range(8)
)  # fmt: skip
JOB = Job(4711, partition="train", gpu_minors=tuple(range(8)))
NODE = Snapshot("node01", NOW, gpus=GPUS, job=JOB)
QUICK = AllreduceSettings(mode="quick")
PASSED = Run(NOW - 3600, "nccl", 8, "quick", True, 20.0, AllreduceEnd.OK, {1 << 30: 470.0})


def ask(settings=QUICK, node=NODE, history=History(), left_s=60.0, profile="h100-sxm"):
    return wanted(node.job, settings, node, history, profile=profile, left_s=left_s)


def change(what, **fields):
    return msgspec.structs.replace(what, **fields)


def test_off_unless_switched_on():
    assert "switched off" in ask(AllreduceSettings()).reason
    here = AllreduceSettings(partitions={"train": "full"}, timeout_s=200.0)
    assert ask(here, left_s=200.0).depth == "full"
    assert isinstance(ask(AllreduceSettings(mode="quick", partitions={"train": "off"})), NotWanted)


def test_a_job_with_all_gpus_gets_one_rank_a_gpu_in_pci_order():
    plan = ask()
    assert isinstance(plan, Plan)
    assert (plan.backend, plan.ranks, plan.depth) == ("nccl", 8, "quick")
    assert [gpu.bus_id for gpu in plan.gpus] == [gpu.bus_id for gpu in GPUS]
    env = plan_environment(plan)
    assert env["CUDA_VISIBLE_DEVICES"] == ",".join(gpu.uuid for gpu in GPUS)


@pytest.mark.parametrize(
    ("node", "word"),
    [
        (change(NODE, job=change(JOB, gpu_minors=(0, 1, 2))), "3 of 8"),
        (change(NODE, job=None), "no job"),
        (change(NODE, gpus=(*GPUS[:7], change(GPUS[7], mig_enabled=True))), "MIG"),
        (change(NODE, gpus=(), pci=(PciDevice("0000:01:00.0", "gpu", "0x10de", "0x2330"),)),
         "gpu-visibility"),
        (change(NODE, gpus=()), "gpu-count"),
    ],
)  # fmt: skip
def test_what_the_test_must_not_load_it_does_not(node, word):
    assert word in ask(node=node).reason


def test_a_recent_pass_is_enough():
    history = History(runs=(PASSED,))
    assert "passed 1.0 h ago" in ask(history=history).reason
    assert isinstance(ask(change(QUICK, max_age_s=60.0), history=history), Plan)
    failed = History(runs=(change(PASSED, passed=False),))
    assert isinstance(ask(history=failed), Plan)
    future = History(runs=(change(PASSED, at=NOW + 9999),))
    assert isinstance(ask(history=future), Plan)
    fewer = History(runs=(change(PASSED, ranks=4),))
    assert isinstance(ask(history=fewer), Plan)


def test_it_must_fit_into_the_time_that_is_left():
    assert "8 s are left" in ask(left_s=8.0).reason
    old = History(runs=(change(PASSED, at=NOW - 1e6, duration_s=4.0),))
    assert isinstance(ask(history=old, left_s=8.0), Plan)
    assert isinstance(ask(history=old, left_s=4.9), NotWanted)
    assert isinstance(ask(change(QUICK, timeout_s=5.0), history=old, left_s=50.0), Plan)


def test_a_node_without_gpus_runs_gloo_only_where_its_profile_says_so():
    node = Snapshot("node01", NOW, gpus=(), pci=(), job=JOB)
    assert ask(node=node, profile="cpu-only").backend == "gloo"
    assert isinstance(ask(node=node, profile="h100-sxm"), NotWanted)


def test_by_hand_gpus_are_never_replaced_by_cpus():
    assert choose(NODE, "h100-sxm", "auto", None, "quick", {})[:2] == ("nccl", 8)
    assert choose(NODE, "h100-sxm", "gloo", 3, "quick", {}) == ("gloo", 3, ())
    none = Snapshot("node01", NOW, gpus=(), pci=())
    assert choose(none, "cpu-only", "auto", None, "quick", {})[0] == "gloo"
    for backend, profile in (("auto", "h100-sxm"), ("nccl", "cpu-only"), ("auto", "unknown-gpu")):
        with pytest.raises(CannotChoose) as told:
            choose(none, profile, backend, None, "quick", {})
        assert told.value.result.cause == "no-cuda"
    gone = Snapshot(
        "node01", NOW, gpus=(), pci=(PciDevice("0000:01:00.0", "gpu", "0x10de", "0x2330"),)
    )
    with pytest.raises(CannotChoose):
        choose(gone, "cpu-only", "auto", None, "quick", {})


@pytest.mark.parametrize(
    ("listed", "expected"),
    [(None, [0, 1, 2, 3, 4, 5, 6, 7]), ("2,0", [2, 0]), ("GPU-0003", [3]), ("", []),
     ("99,x,GPU-none", []), ("1,1", [1])],
)  # fmt: skip
def test_a_jobs_own_gpus_are_those_cuda_shows_it(listed, expected):
    env = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    chosen = visible(places(NODE), env)
    assert [int(gpu.bus_id[5:7], 16) - 1 for gpu in chosen] == expected


def test_sizes_fit_into_the_memory_of_the_gpus():
    small = tuple(change(gpu, memory_bytes=16 << 30) for gpu in places(NODE))
    assert max(make_plan("nccl", "full", 8, gpus=places(NODE)).sizes) == 16 << 30
    assert max(make_plan("nccl", "full", 8, gpus=small).sizes) == 1 << 30


def test_the_childs_environment_is_clean():
    inherited = {
        "NCCL_DEBUG": "TRACE", "NCCL_P2P_DISABLE": "1", "TORCH_LOGS": "all", "PYTHONPATH": "/evil",
        "LD_PRELOAD": "/evil.so", "CUDA_VISIBLE_DEVICES": "3", "LD_LIBRARY_PATH": "/cuda",
    }  # fmt: skip
    env = child_environment(inherited, {"NCCL_SOCKET_IFNAME": "eth0"})
    assert env["LD_LIBRARY_PATH"] == "/cuda"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert env["NCCL_DEBUG"] == "WARN"
    assert env["NCCL_SOCKET_IFNAME"] == "eth0"
    dropped = {"NCCL_P2P_DISABLE", "TORCH_LOGS", "PYTHONPATH", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES"}
    assert not dropped & env.keys()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must take care")
def test_root_runs_no_interpreter_that_others_can_change(tmp_path):
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    assert untrusted(str(python)) is None
    tmp_path.chmod(0o777)
    assert "root alone" in untrusted(str(python))
    tmp_path.chmod(0o755)
    python.unlink()
    python.write_text("")
    os.chown(python, 1000, 1000)
    assert "uid 1000" in untrusted(str(python))
    assert "No such file" in untrusted(str(tmp_path / "none"))


RESULT = AllreduceResult(
    end=AllreduceEnd.OK, backend="nccl", depth="quick", ranks=8, started_at=NOW, duration_s=20.0,
    bandwidth=(BusBandwidth(1 << 30, "bfloat16", 20, 0.004, 0.004, 460.0, 470.0, 461.0),),
)  # fmt: skip


def test_history_remembers_and_is_bounded(tmp_path):
    folder = str(tmp_path / "state")
    history, note = load_history(folder)
    assert (history, note) == (History(), None)
    for number in range(MOST + 5):
        assert remember(folder, history, change(RESULT, started_at=NOW + number), True) is None
        history, note = load_history(folder)
        assert note is None
    assert len(history.runs) == MOST
    assert history.last_pass("nccl", 8) == NOW + MOST + 4
    assert history.duration("nccl", 8, "quick") == 20.0
    point = with_usual(RESULT, history).bandwidth[0]
    assert (point.usual_gb_s, point.usual_runs) == (460.0, MOST)
    assert os.listdir(folder) == [FILE]


@pytest.mark.parametrize("data", [b"", b"{", b'{"version": 99}', b"[]", b'{"runs": 3}', b"\xff"])
def test_an_odd_history_is_told_and_begun_anew(tmp_path, data):
    (tmp_path / FILE).write_bytes(data)
    history, note = load_history(str(tmp_path))
    assert history == History()
    assert FILE in note


def test_a_state_folder_that_cannot_be_written_is_told(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "was not written" in remember(str(blocked), History(), RESULT, True)


def test_bad_runs_are_no_reference():
    history = History(runs=(change(PASSED, passed=False, busbw_gb_s={1 << 30: 10.0}), PASSED))
    assert history.usual("nccl", 8, 1 << 30) == (470.0, 1)


def stage(tmp_path, settings, node=None, host=None, left=40.0):
    cpu = Snapshot("node01", time.time(), gpus=(), pci=(), job=JOB)
    return run_for_stage(
        host or LocalHost(), settings, node or cpu, profile="cpu-only", folder=str(tmp_path),
        deadline=time.monotonic() + left,
    )  # fmt: skip


def test_a_stage_that_does_not_want_it_starts_nothing(tmp_path):
    flown = stage(tmp_path, AllreduceSettings())
    assert (flown.result, flown.problem.kind) == (None, "skipped")
    recorded = stage(tmp_path, QUICK, host=RecordedHost(str(tmp_path)))
    assert recorded.problem.kind == "skipped"


def test_a_stage_runs_it_once_and_not_again(tmp_path):
    pytest.importorskip("torch")
    flown = stage(tmp_path, QUICK)
    assert flown.result.end is AllreduceEnd.OK, flown
    assert remember_flight(str(tmp_path), flown, found=False) is None
    again = stage(tmp_path, QUICK)
    assert again.result is None
    assert "passed 0.0 h ago" in again.problem.reason


def test_an_interpreter_without_torch_is_unmeasured_in_a_stage(tmp_path):
    flown = stage(tmp_path, change(QUICK, interpreter="/usr/bin/python3"))
    assert (flown.result.end, flown.result.cause) == (AllreduceEnd.COULD_NOT_START, "no-torch")


def test_the_decision_imports_neither_torch_nor_what_a_run_needs():
    import subprocess

    code = (
        "import sys, healthcheck.allreduce.stage, healthcheck.allreduce.wanted\n"
        "bad = {'torch', 'numpy', 'subprocess', 'rich', 'matplotlib', 'mmap',"
        " 'healthcheck.allreduce.launch', 'healthcheck.allreduce.assess'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
