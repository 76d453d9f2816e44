"""Storms at a size that fits: real processes, a controller with a lock, delays and bad days."""

import shutil

import pytest

from healthcheck.config import DrainSettings
from slurm_integration.drill.storm.__main__ import wrong
from slurm_integration.drill.storm.controller import Controller, Mood
from slurm_integration.drill.storm.play import Result, Storm, play

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")),
    reason="no C compiler: the storm's scontrol is compiled from C",
)
SIZE = 120


def held(storm: Storm) -> Result:
    """The storm's result, after what holds in every one of them."""
    result = play(storm)
    assert len(result.prologs) == storm.failing + storm.healthy
    assert len(result.out) <= result.seats
    assert result.calls_of_healthy == 0
    assert result.count("pass") == storm.healthy
    return result


def test_with_shared_seats_the_budget_is_met_exactly_and_nobody_calls_more_than_twice():
    result = held(Storm(name="", failing=SIZE, healthy=20, shared=True, deadline_s=30.0,
                        settings=DrainSettings(timeout_s=10)))  # fmt: skip
    assert result.drained == result.seats == 4
    assert result.count("over-budget") == SIZE - 4
    assert sum(result.slurm.calls.values()) == SIZE + 4
    assert max(result.slurm.calls.values()) == 2


def test_without_them_the_budget_holds_and_no_claim_stays():
    result = held(Storm(name="", failing=SIZE, healthy=20, deadline_s=30.0))
    assert result.slurm.claims_left == 0
    assert 1 <= result.drained <= 4
    assert not wrong(result)


def test_a_slow_controller_costs_no_seat_where_they_are_shared():
    mood = Mood(reply_s=(0.6, 1.2))
    result = held(Storm(name="", failing=40, shared=True, mood=mood, deadline_s=30.0,
                        settings=DrainSettings(timeout_s=10)))  # fmt: skip
    assert len(result.out) == result.seats
    assert max(result.slurm.calls.values()) == 2


def test_a_controller_too_slow_for_claims_is_not_called_again_and_again():
    mood = Mood(reply_s=(1.6, 1.9))
    result = held(Storm(name="", failing=20, mood=mood, deadline_s=30.0,
                        settings=DrainSettings(timeout_s=10)))  # fmt: skip
    assert result.count("failed-open") == 20
    assert max(result.slurm.calls.values()) == 3


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("verb", ["show", "update"])
def test_a_refusing_controller_drains_nobody_by_word(verb, shared):
    result = held(Storm(name="", failing=30, shared=shared, mood=Mood(refuse=verb)))
    assert result.drained == 0
    if shared:
        assert max(result.slurm.calls.values()) <= 2


def test_where_nobody_listens_every_job_runs():
    result = held(Storm(name="", failing=30, gone=True))
    assert result.count("failed-open") == 30


@pytest.mark.parametrize("shared", [True, False])
def test_clocks_minutes_apart_free_no_seat_too_early(shared):
    # The oldest drain leaves the window in a minute; some clocks are 2.5 minutes ahead.
    result = held(Storm(name="", failing=40, shared=shared, nodes=100, clocks_s=150,
                        drained_before=4, deadline_s=30.0))  # fmt: skip
    assert result.seats == 0
    assert result.drained == 0
    assert result.count("over-budget") == 40


def test_clients_that_are_told_to_back_off_do_and_the_budget_holds():
    result = held(Storm(name="", failing=60, shared=True, mood=Mood(rate=20), deadline_s=30.0,
                        settings=DrainSettings(timeout_s=20)))  # fmt: skip
    assert result.slurm.throttled > 0
    assert result.drained == result.seats


def test_the_controller_does_what_slurm_does():
    slurm = Controller(["n1"], Mood())
    program = "/x/bin/n1/scontrol"
    update = [program, "update", "NodeName=n1"]
    assert slurm.answer([*update, "State=DRAIN"], 0.0).startswith(b"1You must specify a reason")
    assert slurm.answer([*update, "Reason=r"], 0.0) == b"0"
    assert b"Reason=" not in slurm.answer([program, "-o", "show", "node"], 0.0)
    slurm.answer([*update, "State=DRAIN", "Reason=r"], 86_400.0)
    shown = slurm.answer([program, "-o", "show", "node"], 0.0).decode()
    assert "State=MIXED+DRAIN" in shown
    assert "Reason=r [root@1970-01-02T00:00:00]" in shown
    assert slurm.calls == {"n1": 5}


def test_writers_wait_for_readers_and_readers_for_writers():
    slurm = Controller(["n1"], Mood(read_s=(1, 1), update_s=(2, 2)))
    assert slurm.done_at("show", 10.0) == 11.0
    assert slurm.done_at("show", 10.5) == 11.5
    assert slurm.done_at("update", 10.6) == 13.5
    assert slurm.done_at("show", 10.7) == 14.5
