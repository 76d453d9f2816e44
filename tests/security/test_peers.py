"""Strangers at the port of the test across nodes, and hosts that lie in a sweep."""

import socket
import struct
import threading
import time

import pytest

from healthcheck import __version__
from slurm_integration.allreduce_nodes.coordinator import Coordinator
from slurm_integration.allreduce_nodes.step import Step
from slurm_integration.allreduce_nodes.wire import Line

KEY = "5e" * 16


@pytest.fixture
def table():
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    step = Step(1, 0, ("node01", "node02"), 0, 0, 0, key=KEY)
    made = Coordinator(step, listener, lambda line: None)
    made.where = listener.getsockname()
    return made


def call(table, **hello) -> socket.socket:
    line = Line(socket.create_connection(table.where))
    said = {
        "index": 0,
        "local": 1,
        "backend": "gloo",
        "port": 0,
        "version": __version__,
        "key": KEY,
    }
    line.send("hello", **{**said, **hello})
    return line


def gathered(table, seconds: float = 3.0) -> tuple[str, ...]:
    return table.gather(time.monotonic() + seconds)


@pytest.mark.parametrize(
    "hello",
    [
        {"key": ""},
        {"key": "x"},
        {"key": KEY[:-1]},
        {"key": KEY + "0"},
        {"key": "é" * 16},
        {"index": 2},
        {"index": -1},
        {"key": None},
    ],
)
def test_who_has_not_the_secret_gets_no_seat(table, hello):
    with call(table, index=1).socket, call(table, **hello).socket:
        assert gathered(table, 0.5) == ("node01",)


def test_a_seat_is_given_once(table):
    with call(table, index=1).socket, call(table, index=1, backend="other").socket:
        gathered(table, 0.5)
    assert table.seats["node02"].hello.backend == "gloo"


def test_strangers_who_say_nothing_keep_nobody_out(table):
    """More of them than are ever listened to at once, all there before the agents."""
    strangers = []
    waiting = threading.Thread(target=lambda: strangers.append(gathered(table, 8.0)))
    waiting.start()
    silent = [socket.create_connection(table.where) for _ in range(40)]
    time.sleep(0.2)
    with call(table).socket, call(table, index=1).socket:
        waiting.join(10)
    for one in silent:
        one.close()
    assert strangers == [()]


def test_a_caller_who_hangs_up_with_a_reset_ends_nothing(table):
    for _ in range(8):
        rude = socket.create_connection(table.where)
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        rude.close()
    with call(table).socket, call(table, index=1).socket:
        assert gathered(table) == ()
    # An address is needed later, when the peer may be gone.
    assert table.seats["node02"].line.peer() == "127.0.0.1"


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 60_000 + b"\n",
        b'{"t":"hello","index":NaN}\n',
        b"\xff\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"x" * 200_000,
    ],
)
def test_what_is_no_message_closes_the_line(table, data):
    rude = socket.create_connection(table.where)
    try:
        rude.sendall(data)
    except OSError:
        pass
    with call(table).socket, call(table, index=1).socket:
        assert gathered(table) == ()
    rude.close()
