"""Sweeps of the real Slurm sandbox through srun, through real sshds, and mixed."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from slurm_integration.history.store import Store
from slurm_integration.sandbox import sshd
from slurm_integration.sweep.model import Answer, Severity
from slurm_integration.sweep.transports.ssh.known_hosts import read_files

pytestmark = pytest.mark.slurm

ALL = [f"node{i:02d}" for i in range(1, 9)]
SSH = ALL[4:]


def by_node(sweep) -> dict:
    return {result.node: result for result in sweep.results}


def answers(sweep) -> dict:
    return {result.node: result.answer.value for result in sweep.results}


def test_idle_nodes_are_swept_in_one_srun_step(fleet):
    before = fleet.slurm.run("squeue", "-h", "-t", "all", "-o", "%i").split()
    done = fleet.run("--all", "--via", "srun")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:8]) == [f"{name}: go" for name in ALL]
    assert "node[01-08]: go" in lines
    assert lines[-1].startswith("8 go of 8 nodes in ")
    after = fleet.slurm.run("squeue", "-h", "-t", "all", "-o", "%i").split()
    assert len(set(after) - set(before)) == 1


def test_auto_goes_by_state_and_finds_the_faults(fleet):
    fleet.break_("node02", "xid-79")
    fleet.break_("node06", "xid-79:3")
    fleet.slurm.run("scontrol", "update", "NodeName=node[05-06]", "State=DRAIN", "Reason=mine")
    code, sweep = fleet.sweep("--all")
    found = by_node(sweep)
    assert code == 2
    assert answers(sweep) == dict.fromkeys(ALL, "reported")
    assert [found[n].transport for n in ("node01", "node05", "node06")] == ["srun", "ssh", "ssh"]
    assert {n for n, r in found.items() if r.verdict == "no-go"} == {"node02", "node06"}
    assert found["node05"].state == "IDLE+DRAIN"
    assert [(a.what, a.nodes) for a in sweep.actions] == [
        ("held-by-others", ("node06",)), ("would-drain", ("node02",)),
    ]  # fmt: skip
    assert fleet.slurm.node("node06").reason == "mine"
    assert not fleet.slurm.node("node02").held


def test_a_node_busy_with_a_job_gets_cheap_checks_through_ssh(fleet):
    fleet.slurm.run("sbatch", "-w", "node08", "--exclusive", "--output=/dev/null",
                    "--wrap=sleep 30")  # fmt: skip
    fleet.slurm.wait(lambda: fleet.slurm.node("node08").base == "ALLOCATED")
    code, sweep = fleet.sweep("-w", "node[07-08]")
    found = by_node(sweep)
    assert code == 0
    assert (found["node07"].transport, found["node07"].stage) == ("srun", "sweep")
    assert (found["node08"].transport, found["node08"].stage) == ("ssh", "health")
    assert found["node08"].report["stage"] == "health"
    code, sweep = fleet.sweep("-w", "node[07-08]", "--via", "srun")
    assert by_node(sweep)["node08"].detail == "busy with a job"
    assert code == 3


def test_drain_is_within_the_budget_and_told(fleet):
    for name in ("node01", "node02", "node03"):
        fleet.break_(name, "xid-79")
    database = f"sqlite:///{fleet.slurm.state}/history.db"
    fleet.config.write_text(
        f'history_db = "{database}"\n'
        "[drain]\nmax_nodes = 2\nmax_percent = 100\nmax_held_percent = 100\n"
    )
    done = fleet.run("-w", "node[01-04]", "--drain")
    assert done.returncode == 2, done.stderr
    nodes = fleet.slurm.nodes()
    drained = [name for name in ALL if nodes[name].ours]
    assert len(drained) == 2
    assert "over-budget" in done.stdout
    assert nodes[drained[0]].reason.startswith("flightcheck: no-go gpu-count: ")
    assert not any("claim" in node.comment for node in nodes.values())
    with Store(database) as store:
        told = [name for name in ALL if any(e.kind == "drain" for e in store.events(name))]
    assert told == drained


def test_a_prolog_that_fails_under_the_sweep_costs_the_others_nothing(fleet):
    fleet.slurm.sicken("node03", reason="flightcheck: no-go gpu-count: 7 of 8 GPUs visible")
    code, sweep = fleet.sweep("-w", "node[01-06]")
    told = answers(sweep)
    assert [n for n, a in told.items() if a != "reported"] == ["node03"]
    assert code == 3
    assert by_node(sweep)["node03"].answer in (Answer.UNREACHABLE, Answer.REFUSED)


def test_snapshots_are_kept_and_can_be_judged_again(fleet, tmp_path):
    fleet.break_("node01", "xid-79")
    html = tmp_path / "report.html"
    code, sweep = fleet.sweep(
        "-w", "node[01,05]", "--save", f"{tmp_path}/kept", "--html", str(html)
    )
    assert code == 2
    replayed = subprocess.run(
        [fleet.argv()[0], "check", "--json", "--replay", f"{tmp_path}/kept/node01.json"],
        capture_output=True,
        text=True,
    )
    again = json.loads(replayed.stdout)
    assert again["verdict"] == "no-go"
    assert {o["check"] for o in again["outcomes"] if o["outcome"] == "found"} == {
        check for check, _ in by_node(sweep)["node01"].findings()
    }
    assert (tmp_path / "kept/node05.json").stat().st_size > 50_000
    assert "node01" in html.read_text()


def test_one_node_with_another_firmware_is_told_as_drift(fleet):
    fleet.break_("node03", "vbios-mismatch")
    _code, sweep = fleet.sweep("-w", "node[01-05]")
    drift = [f for f in sweep.comparison.findings if f.kind == "drift"]
    assert [f.nodes for f in drift] == [("node03",)]
    assert drift[0].severity is Severity.WARN
    assert "VBIOS" in drift[0].subject
    assert {m.name for m in sweep.comparison.metrics} >= {"gpu_temperature_c", "gpu_power_w"}


def ssh_sweep(fleet, *options, nodes="node[05-08]"):
    return fleet.sweep("-w", nodes, "--via", "ssh", *options)


def test_all_through_ssh_with_verified_keys(fleet):
    code, sweep = ssh_sweep(fleet)
    assert code == 0
    assert {r.transport for r in sweep.results} == {"ssh"}


def test_every_way_to_fail_has_its_own_answer_and_harms_no_other(fleet):
    other = sshd.start(fleet.folder, "other")
    sshd.stop(other)
    fleet.known(node06=other.host_key, node07="")
    fleet.impostor("node08", "exec cat /dev/zero")
    extra = {
        "garbage1": 'exec echo \'{"status": "ok"}\'',
        "noshell1": "exec cat /dev/zero",
        "hangs1": "exec sleep 30",
    }
    daemons = dict(fleet.daemons)
    started = []
    try:
        for name, script in extra.items():
            path = fleet.folder / f"{name}.sh"
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            started.append(sshd.start(fleet.folder, name, force=str(path)))
            daemons[name] = started[-1]
        daemons["closed1"] = other
        with listener() as silent_port, listener(b"HTTP/1.1 400 no\r\n\r\n" * 200) as http_port:
            config = sshd.client_config(
                fleet.folder, daemons, known={"node06": other.host_key, "node07": ""}
            )
            aliases = (
                f"Host silent1\n  HostName 127.0.0.1\n  Port {silent_port}\n"
                f"Host http1\n  HostName 127.0.0.1\n  Port {http_port}\n"
            )
            config.write_text(aliases + config.read_text())
            code, sweep = ssh_sweep(
                fleet,
                "--timeout", "4",
                nodes="node[05-08],garbage1,noshell1,hangs1,closed1,silent1,http1,nosuch.invalid",
            )  # fmt: skip
    finally:
        for daemon in started:
            sshd.stop(daemon)
    assert answers(sweep) == {
        "node05": "reported",
        "node06": "wrong-host-key",
        "node07": "unknown-host-key",
        "node08": "too-much-output",
        "garbage1": "garbage",
        "noshell1": "too-much-output",
        "hangs1": "timed-out",
        "closed1": "refused",
        "silent1": "timed-out",
        "http1": "garbage",
        "nosuch.invalid": "unreachable",
    }
    assert code == 3
    assert all(r.verdict is None and r.detail for r in sweep.results if r.node != "node05")
    assert "nothing was sent" in by_node(sweep)["node06"].detail
    assert "Slurm knows no node" in sweep.notes[0]


def test_a_login_that_is_refused_says_so(fleet, tmp_path):
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True
    )
    text = fleet.ssh_config.read_text()
    fleet.ssh_config.write_text(text.replace(str(fleet.folder / "id_ed25519"), f"{tmp_path}/k"))
    code, sweep = ssh_sweep(fleet, nodes="node05")
    (result,) = sweep.results
    assert (code, result.answer) == (3, Answer.REFUSED)
    assert result.detail == "login as root: none of 1 keys is accepted"


def test_accept_new_remembers_new_keys_and_still_refuses_changed_ones(fleet):
    fleet.known(node06="", node07="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBad")
    _code, sweep = ssh_sweep(fleet, "--accept-new")
    assert answers(sweep) == {
        "node05": "reported", "node06": "reported", "node07": "wrong-host-key",
        "node08": "reported",
    }  # fmt: skip
    known = read_files([str(fleet.folder / "known_hosts")])
    daemon = fleet.daemons["node06"]
    assert known.keys_of("node06", daemon.port) == [tuple(daemon.host_key.split())]


def test_nodes_behind_a_jump_host_and_a_proxy_command(fleet):
    text = fleet.ssh_config.read_text()
    port = fleet.daemons["node07"].port
    proxy = f"{sys.executable} {fleet.folder}/relay.py {port}"
    (fleet.folder / "relay.py").write_text(RELAY)
    jump = "Host node06 node08\n  ProxyJump node05\n"
    fleet.ssh_config.write_text(f"{jump}Host node07\n  ProxyCommand {proxy}\n{text}")
    code, sweep = ssh_sweep(fleet, "--timeout", "20")
    assert (code, set(answers(sweep).values())) == (0, {"reported"}), [
        r.detail for r in sweep.results
    ]
    fleet.known(node05="")
    fleet.ssh_config.write_text(jump + fleet.ssh_config.read_text())
    code, sweep = ssh_sweep(fleet, nodes="node[06,08]")
    assert set(answers(sweep).values()) == {"unknown-host-key"}
    assert "jump host node05" in sweep.results[0].detail


def test_keys_come_from_an_agent(fleet, tmp_path):
    sock = f"{tmp_path}/agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 240
        while not os.path.exists(sock) and time.monotonic() < until:
            time.sleep(0.02)
        environment = {**os.environ, "SSH_AUTH_SOCK": sock}
        subprocess.run(["ssh-add", "-q", fleet.folder / "id_ed25519"], env=environment, check=True)
        text = fleet.ssh_config.read_text()
        text = text.replace(f"IdentityFile {fleet.folder}/id_ed25519", "IdentityFile none")
        text = text.replace("IdentitiesOnly yes", "").replace(
            "IdentityAgent none", f"IdentityAgent {sock}"
        )
        fleet.ssh_config.write_text(text)
        code, sweep = ssh_sweep(fleet)
        assert code == 0, sweep.results
    finally:
        agent.terminate()
        agent.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_keeps_what_has_arrived(fleet, tmp_path, number):
    for name in ("node02", "node07"):
        fleet.impostor(name, "exec sleep 30")
    fleet.slurm.run("scontrol", "update", "NodeName=node[05-08]", "State=DRAIN", "Reason=x")
    fleet.break_("node01", "xid-79")
    path = tmp_path / "out.json"
    process = subprocess.Popen(
        fleet.argv("--all", "--drain", "--json", str(path)),
        env=fleet.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Whoever runs the tests in the background may have made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    lines = []
    while sum(": " in line for line in lines) < 6:
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    process.send_signal(number)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 130
    sweep = json.loads(path.read_text())
    told = {r["node"]: r["answer"] for r in sweep["results"]}
    assert [n for n, a in told.items() if a == "interrupted"] == ["node02", "node07"]
    assert list(told.values()).count("reported") == 6
    assert (sweep["interrupted"], sweep["actions"]) == (True, [])
    assert "ended early; 5 go, 1 no-go, 2 interrupted of 8 nodes" in out
    fleet.slurm.wait(lambda: not fleet.slurm.run("squeue", "-h"))
    assert not fleet.slurm.node("node01").held


def test_a_terminal_sees_a_table_that_leaves_nothing_behind(fleet):
    ours, theirs = pty.openpty()
    environment = {**fleet.environment(), "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        fleet.argv("-w", "node[05-08]", "--via", "ssh"), env=environment, stdout=theirs,
        stderr=theirs, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 65536):
            text += chunk
    except OSError:
        pass  # the other side has closed
    finally:
        os.close(ours)
    assert process.wait(240) == 0
    shown = text.decode()
    assert "node[05-08]: go" in shown
    assert "/4" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # the cursor is back


BAD = [
    ([], "which nodes"),
    (["-w", "node[1-1000000]"], "expected 1 to 100000 nodes"),
    (["-w", ""], "which nodes"),
    (["-w", "node01", "--all"], "expected one of them"),
    (["-p", "nowhere"], "no such partition; there are gpu"),
    (["--state", "asleep"], "expected one of"),
    (["--state", "down"], "no node of 8"),
    (["--all", "--only", "gpu-cuont"], "no check is called 'gpu-cuont'"),
    (["--all", "--json", "/nowhere/x"], "No such file"),
    (["-w", "node05", "--via", "ssh", "--ssh-config", "/nowhere"], "no such file"),
]


@pytest.mark.parametrize(("options", "told"), BAD)
def test_what_can_not_begin_is_a_usage_error(fleet, options, told):
    done = fleet.run(*options)
    assert done.returncode == 64
    assert told in done.stderr


def test_without_slurm_a_named_list_still_goes_through_ssh(fleet):
    fleet.config.write_text('[drain]\nscontrol = "/nowhere/scontrol"\n')
    code, sweep = fleet.sweep("-w", "node[05-06]")
    assert (code, {r.transport for r in sweep.results}) == (0, {"ssh"})
    assert "Slurm's states are not known" in sweep.notes[0]
    done = fleet.run("--all")
    assert done.returncode == 64
    assert "can't read the nodes" in done.stderr


RELAY = """\
import os, socket, sys, threading
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def up():
    while data := os.read(0, 65536):
        peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := peer.recv(65536):
    os.write(1, data)
"""


@contextmanager
def listener(says: bytes = b""):
    """A port where somebody accepts and is silent, or says this and hangs up."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        held = []

        def serve():
            while True:
                try:
                    held.append(server.accept()[0])
                    held[-1].sendall(says)
                    if says:
                        held.pop().close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        for client in held:
            client.close()
