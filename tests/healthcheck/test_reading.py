"""Probes in children: facts come back, hangs are named, nothing is left behind."""

import os
import select
import sys
import time
import types

import pytest

from healthcheck import reading
from healthcheck.attention import Attention
from healthcheck.host import LocalHost
from healthcheck.reading import Plan, collect, launch


@pytest.fixture
def probe(monkeypatch):
    """Install a probe made of one function."""

    def install(name, read):
        module = types.ModuleType(f"healthcheck.probes.{name}")
        module.read = read
        monkeypatch.setitem(sys.modules, f"healthcheck.probes.{name}", module)
        return name

    return install


def answer_of(name, seconds=5.0):
    child = launch(name, LocalHost(), Plan())
    return collect([child], time.monotonic() + seconds, Attention())[name], child


def test_facts_come_back_as_plain_data(probe):
    answer, _ = answer_of(probe("plain", lambda ask: {"modules": ("a", "b"), "n": 3}))
    assert answer == {"facts": {"modules": ("a", "b"), "n": 3}}


def test_large_facts_come_back_whole(probe):
    answer, _ = answer_of(probe("large", lambda ask: {"text": "x" * 5_000_000}))
    assert len(answer["facts"]["text"]) == 5_000_000


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError(13, "Permission denied", "/dev/kmsg"), "denied"),
        (FileNotFoundError(2, "No such file or directory", "/dev/ipmi0"), "absent"),
        (ValueError("odd"), "failed"),
    ],
)
def test_an_error_becomes_a_problem_with_its_reason(probe, error, kind):
    def read(ask):
        raise error

    answer, _ = answer_of(probe("broken", read))
    assert answer["problem"]["kind"] == kind
    assert answer["problem"]["reason"]


def test_a_child_that_dies_names_its_last_call(probe):
    def read(ask):
        ask.progress.note("nvmlDeviceGetName", "0000:b3:00.0")
        os.kill(os.getpid(), 9)

    answer, _ = answer_of(probe("aborting", read))
    assert answer["problem"]["kind"] == "failed"
    assert "nvmlDeviceGetName 0000:b3:00.0" in answer["problem"]["reason"]


def test_a_hung_call_is_named_and_the_child_is_killed(probe, monkeypatch):
    monkeypatch.setattr("healthcheck.reading.HUNG_AFTER_S", 0.2)

    def read(ask):
        ask.progress.note("nvmlDeviceGetTemperature", "0000:b3:00.0")
        time.sleep(60)

    answer, child = answer_of(probe("hanging", read), seconds=0.4)
    problem = answer["problem"]
    assert problem["kind"] == "hung"
    assert (problem["call"], problem["subject"]) == ("nvmlDeviceGetTemperature", "0000:b3:00.0")
    with pytest.raises(ProcessLookupError):
        os.kill(child._pid, 0)


def test_slow_answers_are_not_a_hang(probe):
    def read(ask):
        for number in range(1000):
            ask.progress.note(f"call{number}", "")
            time.sleep(0.02)

    answer, _ = answer_of(probe("slow", read), seconds=0.3)
    assert answer["problem"]["kind"] == "slow"


def test_a_child_that_hangs_while_leaving_still_delivers(probe, monkeypatch):
    real_exit = os._exit

    def hang(code):
        time.sleep(30)
        real_exit(code)

    monkeypatch.setattr("healthcheck.reading.os._exit", hang)
    begun = time.monotonic()
    answer, child = answer_of(probe("leaving", lambda ask: {"n": 1}))
    assert answer == {"facts": {"n": 1}}
    assert time.monotonic() - begun < 10
    os.kill(child._pid, 9)
    os.waitpid(child._pid, 0)


def test_one_hung_probe_does_not_hide_the_others(probe):
    def hang(ask):
        time.sleep(60)

    readings = [
        launch(probe("stuck", hang), LocalHost(), Plan()),
        launch(probe("fine", lambda ask: {"n": 1}), LocalHost(), Plan()),
    ]
    answers = collect(readings, time.monotonic() + 0.5, Attention())
    assert answers["fine"] == {"facts": {"n": 1}}
    assert answers["stuck"]["problem"]["kind"] == "slow"


def test_facts_that_came_in_time_are_taken_by_a_parent_that_comes_late(probe):
    child = launch(probe("plain", lambda ask: {"n": 3}), LocalHost(), Plan())
    assert select.select([child], [], [], 60)[0]
    answers = collect([child], time.monotonic() - 5, Attention())
    assert answers["plain"] == {"facts": {"n": 3}}


def test_silence_that_nobody_watched_is_no_hang(probe, monkeypatch):
    monkeypatch.setattr("healthcheck.reading.HUNG_AFTER_S", 1.0)

    def read(ask):
        ask.progress.note("nvmlDeviceGetTemperature", "0000:b3:00.0")
        time.sleep(60)

    attention = Attention()
    child = launch(probe("hanging", read), LocalHost(), Plan())
    time.sleep(1.5)  # as a machine that stands still
    problem = collect([child], time.monotonic() + 0.3, attention)["hanging"]["problem"]
    assert problem["kind"] == "stalled"
    assert problem["reason"].startswith("this machine stood still for ")
    assert problem["call"] is None


def test_what_follows_the_last_call_is_not_held_against_it(probe, monkeypatch):
    monkeypatch.setattr("healthcheck.reading.HUNG_AFTER_S", 0.2)
    monkeypatch.setattr("healthcheck.reading._send", lambda *_: time.sleep(60))

    def read(ask):
        ask.progress.note("nvmlShutdown")

    answer, _ = answer_of(probe("sending", read), seconds=1.0)
    assert answer["problem"]["call"] == "sending its facts"


def test_a_child_does_not_hold_our_output_open(probe, tmp_path):
    def read(ask):
        return {"stdout": os.readlink("/proc/self/fd/1"), "stdin": os.readlink("/proc/self/fd/0")}

    answer, _ = answer_of(probe("quiet", read))
    assert answer["facts"] == {"stdout": "/dev/null", "stdin": "/dev/null"}


def test_a_process_that_looks_again_and_again_gathers_no_zombies(probe):
    name = probe("plain", lambda ask: {"n": 1})
    for _ in range(20):
        answer_of(name)
    until = time.monotonic() + 60
    while reading._leaving and time.monotonic() < until:
        time.sleep(0.01)
        reading.reap()
    assert not reading._leaving
