"""Only silence that was watched counts."""

import pytest

from healthcheck import attention as module
from healthcheck.attention import GAP_S, Attention


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on only when it is told to: `clock(seconds)`."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def go(seconds):
        now[0] += seconds

    return go


def look_for(attention, clock, seconds):
    for _ in range(int(seconds * 4)):
        clock(0.25)
        attention.look()


def test_watched_silence_counts_from_the_last_word(clock):
    attention = Attention()
    look_for(attention, clock, 5)
    assert attention.silent_s(1002.0) == 3.0
    assert attention.longest_gap_s == 0


def test_silence_before_the_watch_began_does_not_count(clock):
    attention = Attention()
    look_for(attention, clock, 2)
    assert attention.silent_s(900.0) == 2.0


def test_after_a_gap_the_silence_begins_anew(clock):
    attention = Attention()
    look_for(attention, clock, 2)
    clock(6)
    attention.look()
    assert attention.silent_s(1000.0) == 0
    assert attention.longest_gap_s == 6
    look_for(attention, clock, 1)
    assert attention.silent_s(1000.0) == 1


def test_a_short_delay_is_no_gap(clock):
    attention = Attention()
    clock(GAP_S)
    attention.look()
    assert attention.silent_s(1000.0) == GAP_S


def test_a_word_after_the_last_look_is_no_negative_silence(clock):
    assert Attention().silent_s(1005.0) == 0
