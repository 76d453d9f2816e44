"""The commands as an operator types them."""

import json
import os
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from healthcheck.event_log import record
from healthcheck.node_event import NodeEvent, job_failures
from slurm_integration.commands.collect import command as collect
from slurm_integration.commands.history import command as history
from slurm_integration.commands.lemons import command as lemons
from slurm_integration.commands.stats import command as stats
from slurm_integration.history.lock import only_one
from slurm_integration.history.store import Store
from slurm_integration.history.store_rows import NodeRow

NOW = time.time()


def run(command, *argv, code=0):
    done = CliRunner().invoke(command, argv, standalone_mode=False)
    if isinstance(done.exception, Exception):
        raise done.exception
    found = done.return_value if done.exception is None else done.exc_info[1].code
    assert (found or 0) == code, done.output
    return done.output


@pytest.fixture
def filled(tmp_path):
    """Twenty nodes, one of them a lemon."""
    url = f"sqlite:///{tmp_path}/history.db"
    with Store(url) as store:
        for number in range(20):
            store.note(NodeRow(f"node{number:02d}", "h100-sxm", NOW - 90 * 86_400, NOW))
        events = [
            event
            for job in range(6)
            for event in job_failures(
                "node03", job, "hardware/gpu-lost", ["node07"], at=NOW - 86_400 * job, nodes=8,
                uid=1000, message="GPU 5 fell off the bus",
            )
        ]  # fmt: skip
        events += job_failures("node01", 9, "hardware/nic", ["node01"], at=NOW - 100, nodes=1)
        events += job_failures("node01", 10, "user/nan", [], at=NOW - 90, nodes=1)
        events += [
            NodeEvent(f"{n:032x}", NOW - 3600 * n, "node07", "xid", code=79,
                      subject="0000:b3:00.0", message="GPU has fallen off the bus.")
            for n in range(3)
        ]  # fmt: skip
        events.append(
            NodeEvent("f" * 32, NOW - 50, "node07", "drain", outcome="drained",
                      message="flightcheck: no-go xid: Xid 79 " + "long " * 60)
        )  # fmt: skip
        store.add(events)
    return url


def test_lemons_names_the_node_and_its_share(filled):
    text = run(lemons, "--db", filled)
    assert text.splitlines()[1].startswith("*node07")
    assert "began 7 of 7 that nodes began (100 %)" in text.replace("\n", " ")
    assert "multi-node jobs failed here: 6" in text
    assert max(map(len, text.splitlines())) <= 80


def test_lemons_as_json(filled):
    data = json.loads(run(lemons, "--db", filled, "--json", "-n", "1"))
    assert data["worst"][0]["signals"]["node"] == "node07"
    assert data["worst"][0]["lemon"] is True
    assert data["worst"][0]["xids"] == [79]
    assert data["share"] == pytest.approx(6 / 7)


def test_lemons_of_an_empty_history(tmp_path):
    text = run(lemons, "--db", f"sqlite:///{tmp_path}/new.db")
    assert "No node stands out" in text


def test_stats_tell_mean_times_with_limits(filled):
    text = run(stats, "--db", filled, "--job-nodes", "16")
    assert "h100-sxm: 20 nodes" in text
    assert "job hardware/gpu-lost" in text
    assert "a job on 16 nodes" in text
    assert "8 failed jobs of any cause" in text
    assert max(map(len, text.splitlines())) <= 80


def test_stats_as_json(filled):
    data = json.loads(run(stats, "--db", filled, "--json"))
    line = next(one for one in data["lines"] if one["klass"] == "all jobs")
    assert line["mtbf"]["failures"] == 7
    assert line["mtbf"]["low"] < line["mtbf"]["mean"] < line["mtbf"]["high"]


def test_history_tells_a_nodes_story(filled):
    text = run(history, "node07", "--db", filled)
    lines = text.splitlines()
    assert "79 0000:b3:00.0: GPU has fallen off the bus." in text
    assert "hardware/gpu-lost, began here, 8 nodes [job 3]" in text
    assert lines[-1].strip()
    assert max(map(len, lines)) <= 80


def test_history_of_one_kind_as_json(filled):
    data = json.loads(run(history, "node07", "--db", filled, "--kind", "drain", "--json"))
    assert [one["kind"] for one in data] == ["drain"]


def test_history_of_an_unknown_node(filled):
    assert "nothing is known" in run(history, "node99", "--db", filled)


@pytest.mark.parametrize("since", ["", "30", "d", "2026-13-01", "2026-02-30", "-3d", "1e9d"])
def test_an_odd_span_is_a_usage_error(filled, since):
    from click import UsageError

    with pytest.raises(UsageError, match="expected 30d"):
        run(lemons, "--db", filled, "--since", since)


def test_a_database_that_is_not_there_is_told(tmp_path):
    assert "expected sqlite:///PATH" in run(lemons, "--db", "oracle://x", code=3)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """This machine as a node with a log, its configuration, and a flightcheck to ask it with."""
    state = tmp_path / "state"
    record(str(state), [NodeEvent("a" * 32, NOW - 60, "node01", "xid", code=79)])
    path = tmp_path / "flightcheck.toml"
    path.write_text(f'state_dir = "{state}"\n')
    path.chmod(0o600)
    monkeypatch.setenv("FLIGHTCHECK_CONFIG", str(path))
    monkeypatch.delenv("FLIGHTCHECK_ROOT", raising=False)
    program = tmp_path / "flightcheck"
    program.write_text(
        f"#!/bin/sh\nshift\nexec {sys.executable} -c 'from slurm_integration.commands.history "
        'import command; command()\' "$@"\n'
    )
    program.chmod(0o755)
    return tmp_path, str(program)


def test_a_node_shows_its_own_log(node):
    text = run(history)
    assert "xid" in text and "79" in text


def test_a_node_exports_its_own_log(node):
    data = json.loads(run(history, "--export-since", "0"))
    assert data["snapshot"]["events"][0]["id"] == "a" * 32


def test_collecting_this_machine_fills_the_history(node):
    folder, program = node
    name = os.uname().nodename.partition(".")[0]
    text = run(collect, "--via", "local", "--program", program)
    assert "1 of 1 nodes answered, 1 new events (0 known already)" in text
    text = run(collect, "--via", "local", "--program", program)
    assert "0 new events" in text
    url = f"sqlite:///{folder}/state/history.db"
    with Store(url) as store:
        assert [event.id for event in store.events(name)] == ["a" * 32]


def test_a_node_without_flightcheck_is_named(node):
    text = run(collect, "--via", "local", "--program", "/nonexistent/flightcheck", code=1)
    assert "0 of 1 nodes answered" in text
    assert "not-installed" in text


def test_a_second_collect_goes_away(node):
    folder, _ = node
    with only_one(f"{folder}/state/collect.lock"):
        assert "another one is running" in run(collect, "--via", "local", code=75)


def test_a_host_that_does_not_exist_is_named_and_asked_again_next_time(node):
    folder, program = node
    text = run(collect, "-w", "no-such-host.invalid", "--program", program, code=1)
    assert "no-such-host.invalid: unreachable" in text
    with Store(f"sqlite:///{folder}/state/history.db") as store:
        assert store.nodes()["no-such-host.invalid"].asked_from == 0.0


def test_without_slurm_the_nodes_must_be_named(node):
    folder, _ = node
    (folder / "flightcheck.toml").write_text(
        f'state_dir = "{folder}/state"\n[drain]\nscontrol = "/nonexistent/scontrol"\n'
    )
    text = run(collect, code=3)
    assert "Slurm's nodes are not known" in text and "-w" in text


@pytest.mark.parametrize("nodes", ["n[1-", "n[1-9999999]", "-rf", "a b", ","])
def test_odd_node_lists_are_usage_errors(node, nodes):
    from click import UsageError

    with pytest.raises(UsageError):
        run(collect, "-w", nodes)


def test_the_fleets_metrics_are_written_where_the_site_wants_them(filled, tmp_path):
    from prometheus_client.parser import text_string_to_metric_families

    from healthcheck.config import Config
    from slurm_integration.history.collect import Summary
    from slurm_integration.history.session import Session

    class WithMetrics(Config, frozen=True):
        metrics_dir: str | None = None

    given = {
        "via": "local", "accept_new": False, "ssh_config": "", "user": "", "identity": "",
        "program": "flightcheck", "timeout_s": 60, "fanout": 1,
    }  # fmt: skip
    summary = Summary(20, {"reported": 20}, 3, 2, 0, 0, (), ())
    with Store(filled) as store:
        Session(store, WithMetrics(metrics_dir=str(tmp_path)), given).write_metrics(summary)
    text = (tmp_path / "flightcheck_collect.prom").read_text()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["flightcheck_lemons",] == 1
    assert samples["flightcheck_lemon_score", "node07"] > 3
    assert samples["flightcheck_collect_nodes", "reported"] == 20
    assert samples["flightcheck_fleet_failures", "h100-sxm", "job hardware/gpu-lost"] == 6


WITHOUT = """
import sys
sys.modules["sqlalchemy"] = None
from importlib import import_module
command = import_module("slurm_integration.commands." + sys.argv.pop(1)).command
command()
"""


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("history",), 0, "79"),
        (("history", "--export-since", "0"), 0, '"snapshot"'),
        (("history", "node07"), 3, "pip install 'flightcheck[fleet]'"),
        (("lemons",), 3, "pip install 'flightcheck[fleet]'"),
        (("stats",), 3, "pip install 'flightcheck[fleet]'"),
        (("collect",), 3, "pip install 'flightcheck[fleet]'"),
    ],
)
def test_a_node_needs_no_database_library_and_an_admin_host_is_told(node, argv, code, said):
    done = subprocess.run([sys.executable, "-c", WITHOUT, *argv], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
