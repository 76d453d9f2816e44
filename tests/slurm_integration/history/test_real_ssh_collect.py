"""`flightcheck collect` through a real sshd: nodes' own logs, fetched once and never doubled."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slurm_integration.history.store import Store
from slurm_integration.sandbox import on_node, sshd
from slurm_integration.sandbox.machine import live

BIN = Path(sys.executable).parent
NODES = ("node01", "node02", "node03")


@pytest.fixture(scope="module")
def fleet():
    why = sshd.why_not()
    if why:
        pytest.skip(why)
    state = Path(tempfile.mkdtemp(prefix="fc-ssh-", dir="/tmp"))
    state.chmod(0o755)
    daemons = {}
    try:
        for name in NODES:
            live.build_machine(f"{state}/nodes/{name}/root", "h100-sxm", name)
        program = on_node.write_program(state)
        (state / "ssh").mkdir()
        for name in NODES[:2]:  # nobody answers on the third
            daemons[name] = sshd.start(state / "ssh", name, environment={"SLURMD_NODENAME": name})
        gone = sshd.start(state / "ssh", "node03")
        sshd.stop(gone)
        config = sshd.client_config(state / "ssh", {**daemons, "node03": gone})
        yield state, program, config
    finally:
        for daemon in daemons.values():
            sshd.stop(daemon)
        shutil.rmtree(state, ignore_errors=True)


def health(state: Path, node: str) -> None:
    root = f"{state}/nodes/{node}/root"
    env = {**os.environ, **live.environment(root), "SLURMD_NODENAME": node}
    subprocess.run([BIN / "flightcheck-health"], env=env, check=True, capture_output=True)


def collect(fleet) -> tuple[int, dict]:
    state, program, config = fleet
    done = subprocess.run(
        [BIN / "flightcheck", "collect", "-w", ",".join(NODES), "--json",
         f"--program={program}", f"--ssh-config={config}", f"--db=sqlite:///{state}/history.db"],
        env={**os.environ, "FLIGHTCHECK_ROOT": str(state / "admin")},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_what_nodes_remember_is_fetched_once_whoever_is_away(fleet):
    state, *_ = fleet
    for node in NODES[:2]:
        health(state, node)
    live.break_machine(f"{state}/nodes/node02/root", "xid-79")
    health(state, "node02")
    code, _ = collect(fleet)
    assert code == 1  # node03 did not answer, and is asked again next time
    with Store(f"sqlite:///{state}/history.db") as store:
        first = {node: [e.id for e in store.events(node)] for node in NODES}
        kinds = {e.check for e in store.events("node02") if e.kind == "finding"}
    assert "xid" in kinds
    assert first["node01"] and not first["node03"]
    collect(fleet)
    with Store(f"sqlite:///{state}/history.db") as store:
        assert {node: [e.id for e in store.events(node)] for node in NODES} == first
    live.heal_machine(f"{state}/nodes/node02/root")
    health(state, "node02")
    collect(fleet)
    with Store(f"sqlite:///{state}/history.db") as store:
        later = [e.kind for e in store.events("node02") if e.id not in first["node02"]]
    assert "cleared" in later and "verdict" in later
