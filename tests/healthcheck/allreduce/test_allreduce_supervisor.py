"""Whatever the child does, the supervisor ends in time and says what it was."""

import os
import signal
import sys
import threading
import time

import pytest

from healthcheck.allreduce.launch import process_state
from healthcheck.allreduce.model import AllreduceEnd as End
from healthcheck.allreduce.run import run, start
from healthcheck.allreduce.shapes import make_plan


def timed(go):
    began = time.monotonic()
    result = go()
    return result, time.monotonic() - began


def test_an_interpreter_that_is_not_there(tmp_path):
    child = start(str(tmp_path / "python"))
    result = run(child, make_plan("gloo", "quick", 2), time.monotonic() + 30)
    assert (result.end, result.cause) == (End.COULD_NOT_START, "interpreter")
    assert "No such file" in result.reason
    assert "interpreter" in result.reason


def test_an_interpreter_that_is_no_python():
    child = start("/bin/true")
    result = run(child, make_plan("gloo", "quick", 2), time.monotonic() + 30)
    assert (result.end, result.cause) == (End.COULD_NOT_START, "interpreter")


def test_no_torch_is_told_as_such(fly):
    result = fly("no_torch")
    assert (result.end, result.cause) == (End.COULD_NOT_START, "no-torch")


def test_an_import_that_never_ends_is_ended(fly):
    result, seconds = timed(lambda: fly("no_import", within=3))
    assert (result.end, seconds < 60) == (End.COULD_NOT_START, True)


def test_garbage_between_the_messages_is_passed_over(fly):
    assert fly("garbage", ranks=2).end is End.OK


def test_a_first_process_that_dies_is_noticed_at_once(fly):
    result, seconds = timed(lambda: fly("leader_dies", within=300))
    assert (result.end, seconds < 200) == (End.COULD_NOT_START, True)


def test_cuda_that_does_not_come_up_is_told_and_never_a_fallback(fly):
    result = fly("no_cuda", ranks=2, backend="nccl")
    assert (result.end, result.cause) == (End.COULD_NOT_START, "no-cuda")
    assert "driver initialization failed" in result.reason


def test_a_torch_without_nccl_is_told_as_such(fly):
    import torch.distributed as dist

    if dist.is_nccl_available():
        pytest.skip("this torch has NCCL")
    result = fly(ranks=2, backend="nccl")
    assert (result.end, result.cause) == (End.COULD_NOT_START, "no-nccl")


def test_time_that_runs_out_while_all_goes_well_is_no_evidence(fly):
    result, seconds = timed(lambda: fly(ranks=2, within=15, iterations=100_000))
    assert result.end is End.UNFINISHED, result.reason
    assert result.suspects == ()
    assert seconds < 120


def test_a_child_whose_every_process_is_stopped_is_left_in_time(fly):
    """As when the kernel holds them all: nobody is left to time out by himself."""
    pids = []

    def watch(message):
        if message["t"] == "hello":
            pids.append(message["pid"])
        if message["t"] == "connected" and message["rank"] == 0:
            threading.Timer(0.05, lambda: os.killpg(pids[0], signal.SIGSTOP)).start()

    result, seconds = timed(lambda: fly(ranks=2, within=40, watch=watch, sizes=(16 << 20,)))
    assert result.end is End.HUNG
    assert len(result.suspects) == 2
    assert seconds < 30


def test_the_child_does_not_outlive_its_supervisor(tmp_path):
    """Killed without a chance to clean up, as a prolog may be."""
    code = (
        "import sys, time, os; from healthcheck.allreduce.run import start\n"
        "c = start(sys.executable); print(c.pid, flush=True); time.sleep(60)"
    )
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writer, 1)
        os.execv(sys.executable, [sys.executable, "-c", code])
    os.close(writer)
    child = int(os.read(reader, 32))
    os.close(reader)
    for _ in range(100):  # until it has asked the kernel to be killed too
        if b"run.py" in _cmdline(child):
            break
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for _ in range(100):
        if process_state(child) in ("gone", "Z"):
            break
        time.sleep(0.05)
    assert process_state(child) in ("gone", "Z")


def _cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
