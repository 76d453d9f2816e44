"""Two nodes, played by two children on this machine, meet at one store."""

import socket
import sys
import threading
import time
from importlib.util import find_spec

import msgspec
import pytest

from healthcheck.allreduce.model import AllreduceEnd as End
from healthcheck.allreduce.run import run, start
from healthcheck.allreduce.shapes import make_plan

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def plan_of(number, nodes, port, join_s):
    whole = make_plan("gloo", "quick", 2 * nodes, sizes=(1 << 20,), timeout_s=5.0, seed=7)
    return msgspec.structs.replace(
        whole, local=2, first=2 * number, node=f"node0{number + 1}", store_port=port,
        serve=number == 0, join_s=join_s, env={"GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip


def fly_together(numbers, nodes, join_s=20.0):
    port = free_port()
    results = {}

    def one(number, child):
        results[number] = run(child, plan_of(number, nodes, port, join_s), time.monotonic() + 240)

    threads = [
        threading.Thread(target=one, args=(number, start(sys.executable))) for number in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in numbers]


def test_ranks_of_two_nodes_reduce_together():
    results = fly_together([0, 1], nodes=2)
    assert [r.end for r in results] == [End.OK, End.OK], results
    for result in results:
        assert result.ranks == 4
        assert result.nodes == ("node01", "node01", "node02", "node02")
        assert len(result.members) == 2
        assert result.bandwidth[0].busbw_gb_s > 0
    assert [m.rank for m in results[1].members] == [2, 3]
    assert results[0].member(3).node == "node02"


def test_an_absent_node_does_not_hold_the_others():
    began = time.monotonic()
    (result,) = fly_together([0], nodes=2, join_s=10.0)  # torch itself takes seconds to import
    assert (result.end, result.cause) == (End.COULD_NOT_START, "absent")
    assert result.absent == (2, 3)
    assert time.monotonic() - began < 200


def test_no_rendezvous_is_told_as_such():
    (result,) = fly_together([1], nodes=2, join_s=10.0)
    assert (result.end, result.cause) == (End.COULD_NOT_START, "rendezvous")
