"""Real all_reduces between four network namespaces, one of which or whose link is made slow.

Without Slurm: each agent gets what srun would have set. The kernel's htb shapes every node's
traffic, so that the network and not this machine's CPU is what is measured.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from agents import COMMAND, start, step_environment

FAST, SLOW = "300mbit", "30mbit"
ADDRESSES = [f"10.77.0.{number}" for number in range(1, 5)]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("tc") or find_spec("torch") is None,
    reason="needs root, iproute2 and torch",
)


class Network:
    """Four namespaces on a bridge in a fifth."""

    def __init__(self) -> None:
        self.prefix = f"fc{os.getpid()}"
        self.made: list[str] = []

    def run(self, *argv: str) -> None:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=240)
        if done.returncode:
            raise RuntimeError(f"{argv}: {done.stderr}")

    def up(self) -> None:
        switch = self.namespace("sw")
        self.run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        self.run("ip", "-n", switch, "link", "set", "br0", "up")
        for number, address in enumerate(ADDRESSES, 1):
            node, port = self.namespace(str(number)), f"port{number}"
            peer = ("peer", "name", "eth0", "netns", node)
            self.run("ip", "-n", switch, "link", "add", port, "type", "veth", *peer)
            self.run("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
            self.run("ip", "-n", node, "addr", "add", f"{address}/24", "dev", "eth0")
            for interface in ("eth0", "lo"):
                self.run("ip", "-n", node, "link", "set", interface, "up")
            self.shape(node)

    def namespace(self, name: str) -> str:
        full = f"{self.prefix}-{name}"
        self.run("ip", "netns", "add", full)
        self.made.append(full)
        return full

    def shape(self, node: str) -> None:
        """What leaves a node is fast, but for what goes into the second class."""
        tc = ("tc", "-n", node)
        self.run(
            *tc,
            *[
                "qdisc",
                "add",
                "dev",
                "eth0",
                "root",
                "handle",
                "1:",
                "htb",
                "default",
                "1",
                "r2q",
                "1000",
            ],
        )
        for number, rate, burst in ((1, FAST, "64k"), (2, SLOW, "16k")):
            words = f"class add dev eth0 parent 1: classid 1:{number} htb rate {rate} burst {burst}"
            self.run(*tc, *words.split())

    def slow(self, number: int, towards: str) -> None:
        """What this node sends to an address or network is slow from now on."""
        words = f"filter add dev eth0 parent 1: protocol ip u32 match ip dst {towards} flowid 1:2"
        self.run("tc", "-n", f"{self.prefix}-{number}", *words.split())

    def heal(self, number: int) -> None:
        words = "filter del dev eth0 parent 1:"
        self.run("tc", "-n", f"{self.prefix}-{number}", *words.split())

    def down(self) -> None:
        """Interfaces go with their namespaces."""
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=240)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    net = Network()
    try:
        try:
            net.up()
        except RuntimeError as error:
            pytest.skip(f"no network namespaces or shaping here: {error}")
        yield net
    finally:
        net.down()


def fly(network: Network, step: int) -> dict[str, Any]:
    """The command on all four; the report."""
    options = [
        "--backend",
        "gloo",
        "--nproc",
        "1",
        "--sizes",
        "512K",
        "--slow-below",
        "0.5",
        "--timeout",
        "150",
        "--json",
    ]
    tasks = []
    try:
        for index in range(4):
            inside = ["ip", "netns", "exec", f"{network.prefix}-{index + 1}"]
            argv = [*inside, sys.executable, "-c", COMMAND, *options]
            tasks.append(start(argv, step_environment(index, ADDRESSES, step)))
        ended = [task.communicate(timeout=240) for task in tasks]
    finally:
        for task in tasks:
            if task.poll() is None:
                os.killpg(task.pid, signal.SIGKILL)
                task.wait()
    outputs = [out for out, _ in ended if out.strip()]
    assert len(outputs) == 1, ended
    report: dict[str, Any] = json.loads(outputs[0])
    return report


def faults(report: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(fault["kind"], fault["nodes"]) for fault in report["conclusion"]["faults"]]


def test_a_node_behind_a_slow_port_is_localised_in_two_rounds(network: Network) -> None:
    network.slow(3, "10.77.0.0/24")
    try:
        report = fly(network, 1)
    finally:
        network.heal(3)
    assert faults(report) == [("node", ["node03"])], report
    assert "node03 is slow with every partner" in report["conclusion"]["faults"][0]["words"]
    assert max(test["round"] for test in report["tests"]) == 2
    assert sum(test["kind"] == "pair" for test in report["tests"]) == 4


def test_a_slow_link_is_localised_and_its_nodes_are_cleared(network: Network) -> None:
    network.slow(1, "10.77.0.4/32")
    try:
        report = fly(network, 2)
    finally:
        network.heal(1)
    assert faults(report) == [("link", ["node01", "node04"])], report
    assert report["verdict"] == "no-go"
    assert max(test["round"] for test in report["tests"]) == 2
