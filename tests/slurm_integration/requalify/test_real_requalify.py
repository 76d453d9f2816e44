"""On a real Slurm cluster: our prolog drains, and exactly the right nodes come back."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from slurm_integration.commands.requalify import _sweep_checks
from slurm_integration.requalify.door import RequalifyScontrol
from slurm_integration.requalify.round import Requalifier
from slurm_integration.requalify.rules import Rules
from slurm_integration.requalify.store import Store
from slurm_integration.sandbox import cluster, sshd
from slurm_integration.sandbox.machine import live
from slurm_integration.sweep.model import Answer, NodeResult

pytestmark = pytest.mark.slurm
FLIGHTCHECK = str(Path(sys.executable).parent / "flightcheck")
RULES = Rules(passes=2, spread_s=2, hold_s=3600, flap_window_s=600, max_nodes=100)
REBOOT, REPLACE = "xid-79", "row-remap-failure"


class MachineLook:
    """Runs the real `flightcheck check` on each simulated machine; no network between."""

    def __init__(self, healing) -> None:
        self.healing = healing

    def __call__(self, nodes):
        return {node.name: self._ask(node.name) for node in nodes}

    def _ask(self, name: str) -> NodeResult:
        environment = {"PATH": os.environ["PATH"], **live.environment(self.healing.root(name))}
        done = subprocess.run(
            [FLIGHTCHECK, "check", "--json"], env=environment, capture_output=True, timeout=240
        )
        return NodeResult(name, "local", Answer.REPORTED, json.loads(done.stdout))


@pytest.fixture
def requalify(healing, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", cluster.client_environment(str(healing.state))["SLURM_CONF"])
    for name, node in healing.nodes().items():
        if live.read_record(healing.root(name)).faults:
            healing.heal(name)
            live.forget_baseline(healing.root(name))
            live.take_baseline(healing.root(name))
        if node.held:
            healing.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
    healing.wait(lambda: all(n.base == "IDLE" and not n.flags for n in healing.nodes().values()))

    def make(rules: Rules = RULES) -> Requalifier:
        return Requalifier(
            RequalifyScontrol(timeout_s=20),
            MachineLook(healing),
            Store(str(tmp_path)),
            rules,
            sweep_checks=_sweep_checks(),
        )

    return make


def rounds(requalifier: Requalifier, count: int):
    for _ in range(count - 1):
        requalifier.round()
        time.sleep(RULES.gap_s + 0.05)
    return requalifier.round()


def test_exactly_the_proven_nodes_come_back(healing, requalify):
    healing.drain_by_prolog(
        {"node01": REBOOT, "node02": REBOOT, "node03": REPLACE, "node05": REBOOT, "node06": REBOOT}
    )
    healing.run("scontrol", "update", "NodeName=node04", "State=DRAIN", "Reason=rack work, al")
    before = healing.nodes()["node04"]
    healing.heal("node01", "node03", "node05", "node06")
    healing.run("scontrol", "create", "reservation", "reservationname=work", "starttime=now",
                "duration=60", "user=root", "flags=ignore_jobs", "nodes=node05")  # fmt: skip
    healing.run("scontrol", "update", "NodeName=node06", "State=DOWN",
                f"Reason={healing.nodes()['node06'].reason}")  # fmt: skip
    try:
        end = rounds(requalify(), 4)
    finally:
        healing.run("scontrol", "delete", "reservation=work")

    now = healing.nodes()
    assert {name for name, node in now.items() if not node.held} == {"node01", "node07", "node08"}
    stands = {standing.node: standing for standing in end.standings}
    assert stands["node02"].stand == "due"
    assert "GPU" in stands["node02"].why
    assert stands["node03"].stand == "replace"
    assert stands["node05"].stand == "untouched"
    assert "DOWN" in stands["node06"].why
    assert end.foreign == ("node04",)
    assert (now["node04"].reason, now["node04"].reason_time) == (before.reason, before.reason_time)
    assert end.book.of("node01").history[0].by == "requalify"


def test_a_flapping_node_does_not_come_back(healing, requalify):
    requalifier = requalify()
    healing.drain_by_prolog({"node01": "gpu-missing", "node02": "gpu-missing"})
    healing.heal("node01", "node02")
    rounds(requalifier, 2)
    assert not healing.nodes()["node01"].held
    healing.drain_by_prolog({"node01": "gpu-missing"})
    healing.heal("node01")
    end = rounds(requalifier, 3)
    assert healing.nodes()["node01"].drained
    assert not healing.nodes()["node02"].held
    assert [(s.node, s.stand) for s in end.standings] == [("node01", "held-off")]


def test_a_reboot_that_is_configured_is_asked_for_once_and_stays_one_drain(healing, requalify):
    rules = Rules(passes=1, spread_s=0, reboot=True)
    requalifier = requalify(rules)
    healing.drain_by_prolog({"node08": REBOOT})
    first = requalifier.round()
    assert [(one.what, one.nodes) for one in first.done] == [("rebooted", ("node08",))]
    healing.wait(lambda: "REBOOT_ISSUED" in healing.nodes()["node08"].flags)
    again = requalifier.round()
    assert again.done == ()
    assert again.standings[0].stand == "untouched"
    record = again.book.of("node08")
    assert len(record.reboots) == 1
    assert record.strikes == 0
    assert record.reason.endswith(": reboot issued")


@pytest.fixture
def reached_by_ssh(healing):
    """node01 and node02 with an sshd of their own; the ssh_config that leads there."""
    why = sshd.why_not()
    if why:
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="fc-sshd-", dir="/tmp"))
    daemons: dict[str, sshd.Sshd] = {}
    try:
        for name in ("node01", "node02"):
            variables = {**live.environment(healing.root(name)), "SLURMD_NODENAME": name}
            daemons[name] = sshd.start(folder, name, environment=variables)
        yield sshd.client_config(folder, daemons)
    finally:
        for daemon in daemons.values():
            sshd.stop(daemon)
        shutil.rmtree(folder, ignore_errors=True)


def test_the_command_proves_nodes_through_ssh(healing, requalify, reached_by_ssh, tmp_path):
    healing.drain_by_prolog({"node01": "gpu-missing", "node02": "gpu-missing"})
    healing.heal("node01")
    code = "from slurm_integration.commands.requalify import command; command()"
    argv = [
        *(sys.executable, "-c", code, "--config", str(healing.state / "flightcheck.toml")),
        *("--ssh-config", str(reached_by_ssh), "--program", FLIGHTCHECK),
        *("--state-dir", str(tmp_path), "--passes", "2", "--spread", "1"),
    ]
    environment = cluster.client_environment(str(healing.state))
    said = []
    for _ in range(2):
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
        time.sleep(1.1)
    assert "node01: 1 of 2 clean passes" in said[0]
    assert "node01: resumed: 2 clean passes" in said[1]
    assert "node02: still sick: gpu-" in said[1]
    assert "next: scontrol reboot node02" in said[1]
    assert not healing.nodes()["node01"].held
    assert healing.nodes()["node02"].drained
