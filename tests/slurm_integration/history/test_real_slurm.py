"""A collect through a real Slurm: srun to the nodes, squeue for what users exclude."""

import os
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import healthcheck
from healthcheck.event_log import record
from healthcheck.node_event import NodeEvent
from slurm_integration.commands.collect import command as collect
from slurm_integration.history.store import Store

pytestmark = pytest.mark.slurm
REPO = Path(healthcheck.__file__).parents[1]


@pytest.fixture
def nodes(slurm, tmp_path, monkeypatch):
    """Every node has a state folder and a log of its own; the admin host a history."""
    tmp_path.chmod(0o755)
    names = sorted(slurm.nodes())
    for number, name in enumerate(names):
        state = tmp_path / name
        record(str(state), [NodeEvent(f"{number:032x}", time.time() - 60, name, "xid", code=79)])
        config = tmp_path / f"{name}.toml"
        config.write_text(f'state_dir = "{state}"\n')
        config.chmod(0o600)
    admin = tmp_path / "admin.toml"
    admin.write_text(f'state_dir = "{tmp_path}/admin"\n')
    admin.chmod(0o600)
    program = tmp_path / "flightcheck"
    program.write_text(
        f"#!/bin/sh\nshift\nexport FLIGHTCHECK_CONFIG={tmp_path}/$SLURMD_NODENAME.toml\n"
        f"export PYTHONPATH={REPO}\n"
        f"exec {sys.executable} -c 'from slurm_integration.commands.history import command; "
        'command()\' "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("SLURM_CONF", f"{slurm.state}/etc/slurm.conf")
    monkeypatch.setenv("FLIGHTCHECK_CONFIG", str(admin))
    for name in [name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_CONF"]:
        monkeypatch.delenv(name)
    return names, str(program), f"sqlite:///{tmp_path}/admin/history.db"


def run(*argv):
    return CliRunner().invoke(collect, argv, standalone_mode=False)


def test_a_collect_through_srun_fetches_every_nodes_events(slurm, nodes):
    names, program, url = nodes
    job = slurm.submit("--hold", f"--exclude={names[0]},{names[1]}")
    slurm.run("scontrol", "update", f"NodeName={names[2]}", "State=DRAIN", "Reason=fan is broken")
    try:
        done = run("--via", "srun", "--program", program)
    finally:
        slurm.run("scancel", str(job))
    assert done.exception is None, done.exception
    assert f"{len(names) - 1} of {len(names)} nodes answered" in done.output, done.output
    assert done.return_value == 1
    assert "fan is broken" in done.output
    with Store(url) as store:
        xids = {name: [e.kind for e in store.events(name, kinds=("xid",))] for name in names}
        assert xids == {name: [] if name == names[2] else ["xid"] for name in names}
        for name in names[:2]:
            (told,) = store.events(name, kinds=("excluded",))
            assert (told.job_id, told.uid) == (job, os.geteuid())
        (drain,) = store.events(names[2], kinds=("drain",))
        assert (drain.outcome, drain.message) == ("by-others", "fan is broken")


def test_a_second_collect_brings_nothing_twice(slurm, nodes):
    names, program, url = nodes
    run("--via", "srun", "--program", program)
    slurm.wait(lambda: all(n.base == "IDLE" and not n.flags for n in slurm.nodes().values()))
    again = run("--via", "srun", "--program", program)
    assert again.return_value == 0, again.output
    assert f"{len(names)} of {len(names)} nodes answered, 0 new events" in again.output
    with Store(url) as store:
        assert all(len(store.events(name)) == 1 for name in names)
