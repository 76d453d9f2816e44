"""Agents, coordinator and the course of a run, each agent a process of its own on this machine."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from agents import start, step_environment

from slurm_integration.allreduce_nodes.step import read_step

SCRIPT = str(Path(__file__).with_name("agents.py"))
Fly = Callable[..., "Flown"]
_steps = iter(range(10_000))


class Flown:
    """What came of a run: the report of whoever coordinated, exit codes, complaints."""

    def __init__(self, ended: dict[str, tuple[int, str, str]]) -> None:
        self.codes = {name: code for name, (code, _, _) in ended.items()}
        self.complaints = {name: err for name, (_, _, err) in ended.items()}
        reports = [json.loads(out) for _, out, _ in ended.values() if out.strip()]
        assert len(reports) <= 1, "one report for all nodes"
        self.report: dict[str, Any] = reports[0] if reports else {}

    def faults(self) -> list[tuple[str, list[str]]]:
        return [(f["kind"], f["nodes"]) for f in self.report["conclusion"]["faults"]]

    def words(self) -> str:
        return "; ".join(fault["words"] for fault in self.report["conclusion"]["faults"])


@pytest.fixture
def fly(tmp_path: Path) -> Iterator[Fly]:
    """Run agents on so many nodes; `missing` nodes are not started at all."""
    running = []

    def _fly(
        count: int,
        *,
        missing: tuple[str, ...] = (),
        before: Any = None,
        kill: Any = None,
        **plan: Any,
    ) -> Flown:
        step = next(_steps)
        tasks = {}
        for index in range(count):
            name = f"node{index + 1:02d}"
            env = step_environment(index, ["127.0.0.1"] * count, step)
            if before is not None and index == 0:
                before(read_step(env))
            if name not in missing:
                argv = [sys.executable, SCRIPT, json.dumps({"folder": str(tmp_path), **plan})]
                tasks[name] = start(argv, env)
        running.extend(tasks.values())
        wait_for = {
            n: t
            for n, t in tasks.items()
            if n not in (*plan.get("late", []), *plan.get("hangs", []))
        }
        if kill is not None:
            name, after_s = kill
            time.sleep(after_s)
            tasks[name].kill()
        ended = {}
        for name, task in wait_for.items():
            out, err = task.communicate(timeout=240)
            ended[name] = (task.returncode, out, err)
        return Flown(ended)

    yield _fly
    for task in running:
        if task.poll() is None:
            os.killpg(task.pid, signal.SIGKILL)
            task.wait()
        for stream in (task.stdout, task.stderr):
            stream.close()


def test_a_healthy_set_is_go_and_one_node_reports(fly: Fly) -> None:
    flown = fly(4, expect=48.0)
    assert flown.report["verdict"] == "go"
    assert flown.report["coordinator"] == "node01"
    assert [test["kind"] for test in flown.report["tests"]] == ["whole"]
    assert set(flown.codes.values()) == {0}


def test_a_slow_node_is_localised_in_two_rounds_and_its_own_task_says_so(fly: Fly) -> None:
    flown = fly(5, slow=["node04"])
    assert flown.faults() == [("node", ["node04"])]
    assert max(test["round"] for test in flown.report["tests"]) == 2
    assert flown.codes == {"node01": 2, "node02": 0, "node03": 0, "node04": 2, "node05": 0}


def test_the_coordinating_node_blames_itself_too(fly: Fly) -> None:
    assert fly(4, slow=["node01"]).faults() == [("node", ["node01"])]


def test_a_slow_link_is_localised(fly: Fly) -> None:
    assert fly(4, link=["node02", "node03"]).faults() == [("link", ["node02", "node03"])]


def test_a_corrupt_node_is_localised(fly: Fly) -> None:
    flown = fly(4, corrupt=["node03"], expect=48.0)
    assert flown.faults() == [("node", ["node03"])]
    assert flown.report["verdict"] == "no-go"


def test_an_absent_node_is_named_and_the_others_are_tested_within_the_limit(fly: Fly) -> None:
    began = time.monotonic()
    flown = fly(4, late=["node03"], join=8.0, expect=48.0)
    assert time.monotonic() - began < 300
    assert flown.report["absent"] == ["node03"]
    assert flown.words() == "node03 did not show up"
    assert flown.report["tests"][0]["nodes"] == ["node01", "node02", "node04"]
    assert flown.codes == {"node01": 2, "node02": 0, "node04": 0}


def test_where_the_first_node_is_absent_the_second_coordinates(fly: Fly) -> None:
    flown = fly(4, missing=("node01",), join=8.0, expect=48.0)
    assert flown.report["coordinator"] == "node02"
    assert flown.faults() == [("node", ["node01"])]
    assert "no answer from node01" in flown.complaints["node03"]


def test_a_node_that_dies_during_a_test_is_named_and_its_partners_are_not(fly: Fly) -> None:
    flown = fly(4, dies=["node04"])
    assert flown.faults() == [("node", ["node04"])]
    assert flown.words() == "node04 went away during a test"


def test_a_node_that_never_answers_costs_the_others_no_more_than_the_limit(fly: Fly) -> None:
    began = time.monotonic()
    flown = fly(3, hangs=["node02"], limit=30.0, join=10.0)
    assert time.monotonic() - began < 300
    assert flown.report["tests"][0]["lost"] == ["node02"]
    assert ("node", ["node02"]) in flown.faults()


def test_where_the_coordinator_dies_the_others_say_so_and_judge_nothing(fly: Fly) -> None:
    flown = fly(3, kill=("node01", 2.0), hangs=["node02"], limit=90.0)
    assert flown.report == {}
    assert flown.codes == {"node01": -signal.SIGKILL, "node03": 3}
    assert "the coordinating node went away" in flown.complaints["node03"]


def test_a_node_that_can_offer_nothing_is_named_with_its_reason(fly: Fly) -> None:
    flown = fly(3, trouble={"node02": "NVML shows no GPU"}, expect=48.0)
    assert flown.words() == "node02: NVML shows no GPU"
    assert flown.report["tests"][0]["nodes"] == ["node01", "node03"]


def test_a_node_with_another_backend_is_not_tested_with_the_others(fly: Fly) -> None:
    flown = fly(3, backends={"node01": "nccl", "node03": "nccl"}, expect=48.0)
    assert flown.words() == "node02: would run gloo where the others run nccl"


def test_strangers_at_the_port_are_turned_away(fly: Fly) -> None:
    """Somebody connects first and sends rubbish, a false greeting, or nothing at all."""
    held: list[socket.socket] = []

    def intrude(step: Any) -> None:
        import threading

        def knock(data: bytes) -> None:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    one = socket.create_connection(("127.0.0.1", step.port(0)), 1)
                    one.sendall(data)
                    held.append(one)
                    return
                except OSError:
                    time.sleep(0.01)

        greeting = b'{"t":"hello","index":99,"local":1,"backend":"gloo","port":1}\n'
        wrong = b'{"t":"hello","index":1,"local":1,"backend":"gloo","port":1,"key":"guessed"}\n'
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 70_000, b"[[[[" * 9, b"", greeting, wrong):
            threading.Thread(target=knock, args=(data,), daemon=True).start()

    flown = fly(3, before=intrude, expect=48.0)
    for one in held:
        one.close()
    assert flown.report["verdict"] == "go"
    assert flown.report["absent"] == []
