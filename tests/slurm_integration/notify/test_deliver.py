"""Events reach the site's program: at least once, in order, never too many, and nothing is held."""

import json
import time
from pathlib import Path

import pytest

from healthcheck.event_log import record
from healthcheck.node_event import NodeEvent, new_id
from slurm_integration.notify import deliver as delivering
from slurm_integration.notify.deliver import deliver
from slurm_integration.notify.settings import NotifySettings, settings_of

NOW = time.time()


def event(number: int = 0, kind: str = "drain", **fields) -> NodeEvent:
    at = NOW - 100 + number / 1000
    given = {"outcome": "drained", "message": f"flightcheck: no-go number-{number}: sick"} | fields
    return NodeEvent(new_id(at), at, "node17", kind, **given)


class Receiver:
    """A program that keeps what it gets, or fails as it is told."""

    def __init__(self, folder: Path) -> None:
        self.got = folder / "got"
        self.mode = folder / "mode"
        self.mode.write_text("take")
        self.path = folder / "receiver"
        self.path.write_text(
            f"#!/bin/sh\ncase $(cat {self.mode}) in\ntake) cat >> {self.got} ;;\n"
            "fail) echo the server is down >&2; exit 7 ;;\nhang) sleep 60 ;;\nesac\n"
        )
        self.path.chmod(0o755)
        self.settings = NotifySettings(on_event=(str(self.path), "a word"), timeout_s=0.5)

    def messages(self) -> list[dict]:
        return (
            [json.loads(line) for line in self.got.read_text().splitlines()]
            if self.got.exists()
            else []
        )


@pytest.fixture
def receiver(tmp_path) -> Receiver:
    return Receiver(tmp_path)


@pytest.fixture
def folder(tmp_path) -> Path:
    state = tmp_path / "state"
    state.mkdir()
    return state


def test_an_event_is_handed_over_once_as_one_json_object(receiver, folder):
    record(str(folder), [event(1)])
    assert deliver(str(folder), receiver.settings, NOW) == []
    assert deliver(str(folder), receiver.settings, NOW) == []
    (got,) = receiver.messages()
    assert (got["node"], got["kind"], got["outcome"]) == ("node17", "drain", "drained")
    assert got["text"] == "node17 drained: flightcheck: no-go number-1: sick"


def test_only_what_is_news_and_was_asked_for_is_told(receiver, folder):
    record(str(folder), [
        event(1, outcome="dry-run"), event(2, outcome="already-ours"), event(3, kind="finding"),
        event(4, kind="xid"), event(5, kind="requeue"),
        event(6, kind="job-failure", klass="user/nan"),
    ])  # fmt: skip
    deliver(str(folder), receiver.settings, NOW)
    assert [got["kind"] for got in receiver.messages()] == ["requeue", "job-failure"]


@pytest.mark.parametrize("trouble", ["fail", "hang"])
def test_what_was_not_taken_is_tried_again_and_in_order(trouble, receiver, folder):
    record(str(folder), [event(1), event(2)])
    receiver.mode.write_text(trouble)
    (note,) = deliver(str(folder), receiver.settings, NOW)
    assert "2 events wait" in note
    assert ("the server is down" in note) == (trouble == "fail")
    record(str(folder), [event(3)])
    receiver.mode.write_text("take")
    assert deliver(str(folder), receiver.settings, NOW) == []
    assert [got["text"][-7:] for got in receiver.messages()] == ["1: sick", "2: sick", "3: sick"]


def test_a_program_that_is_not_there_holds_nothing_and_loses_nothing(receiver, folder):
    record(str(folder), [event(1)])
    gone = NotifySettings(on_event=("/no/such/program",))
    (note,) = deliver(str(folder), gone, NOW)
    assert "/no/such/program: No such file" in note
    assert deliver(str(folder), receiver.settings, NOW) == []
    assert len(receiver.messages()) == 1


def test_a_storm_is_a_bounded_number_of_messages_that_counts_the_rest(receiver, folder):
    record(str(folder), [event(number) for number in range(200)])
    assert deliver(str(folder), receiver.settings, NOW) == []
    got = receiver.messages()
    assert len(got) == delivering.MOST
    assert got[-1]["kind"] == "more" and got[-1]["count"] == 200 - delivering.MOST + 1
    assert deliver(str(folder), receiver.settings, NOW) == []
    assert len(receiver.messages()) == delivering.MOST


def test_what_is_older_than_a_day_wakes_nobody(receiver, folder):
    record(str(folder), [event(1)])
    deliver(str(folder), receiver.settings, NOW + 2 * 86_400)
    assert receiver.messages() == []


@pytest.mark.parametrize("left", [b"", b"{", b'{"since": "x"}', b'{"since": 9e18}', b"\xff\xfe"])
def test_a_broken_memory_of_what_was_told_begins_anew(left, receiver, folder):
    (folder / "notified.json").write_bytes(left)
    record(str(folder), [event(1)])
    assert deliver(str(folder), receiver.settings, NOW) == []
    assert len(receiver.messages()) == 1


def test_a_folder_that_cannot_be_written_is_a_note(receiver, tmp_path):
    (note,) = deliver(str(tmp_path / "nowhere"), receiver.settings, NOW)
    assert "nobody was told" in note


@pytest.mark.parametrize("table", [{"on_evnt": ["x"]}, {"on_event": "x"}, {"timeout_s": 1e9}, 7])
def test_a_refused_table_tells_nobody_and_says_so(table):
    settings, trouble = settings_of(table)
    assert settings.on_event == () and settings.log == "off"
    assert "[notify] is refused" in trouble


def test_no_text_of_a_users_reaches_a_message_raw(receiver, folder):
    record(str(folder), [event(1, message="\x1b[31mred\x00\nnext line")])
    deliver(str(folder), receiver.settings, NOW)
    assert receiver.messages()[0]["text"].isprintable()


def test_the_health_program_hands_over_what_it_found(h100, receiver):
    h100.configure(f'[notify]\non_event = ["{receiver.path}"]\nevents = ["finding", "drain"]\n')
    env = {"SLURMD_NODENAME": "node01", "FLIGHTCHECK_CONFIG": str(h100.config)}
    h100.run("flightcheck-health", **env)
    assert receiver.messages() == []
    h100.break_("xid-79")
    h100.run("flightcheck-health", **env)
    found = {got["check"] for got in receiver.messages()}
    assert {"xid", "gpu-count"} <= found
    told = len(receiver.messages())
    h100.run("flightcheck-health", **env)
    assert len(receiver.messages()) == told  # it stands, and is no news any more


def test_the_command_tries_whether_somebody_hears(h100, receiver):
    h100.configure(f'[notify]\non_event = ["{receiver.path}"]\n')
    env = {"FLIGHTCHECK_CONFIG": str(h100.config)}
    done = h100.run("flightcheck", "notify", "--test", **env)
    assert (done.returncode, done.stdout) == (0, "handed over\n")
    assert "nothing is wrong" in receiver.messages()[0]["text"]
    receiver.mode.write_text("fail")
    done = h100.run("flightcheck", "notify", "--test", **env)
    assert done.returncode == 1 and "the server is down" in done.stderr
    h100.configure("")
    done = h100.run("flightcheck", "notify", **env)
    assert done.returncode == 64 and "on_event" in done.stderr
