"""srun that is ended early: its Slurm job goes too, or somebody is told that it stays."""

import threading
from pathlib import Path

import pytest

from slurm_integration.sweep.transports import srun
from slurm_integration.sweep.transports.base import Errand, Target

NODES = (Target("node01", "IDLE", partitions=("gpu",), gpus=8),)


def programs(folder: Path, scancel: str) -> str:
    """An srun that waits, and this scancel beside it."""
    for name, body in (("srun", "exec sleep 30"), ("scancel", scancel)):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return str(folder / "srun")


def stopped(program: str, errand: Errand) -> srun.SrunTransport:
    """A transport that was told to stop while srun waited."""
    transport = srun.SrunTransport(errand, program)
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    transport.run(NODES, lambda result: None, stop)
    return transport


def test_the_job_is_cancelled_by_its_name(tmp_path):
    errand = Errand()
    transport = stopped(programs(tmp_path, f'echo "$@" > {tmp_path}/called'), errand)
    called = (tmp_path / "called").read_text()
    assert called == f"--quiet --name=flightcheck-sweep-{errand.nonce}\n"
    assert transport.notes == []


@pytest.mark.parametrize("scancel", ["exit 1", "exec sleep 30"])
def test_a_job_that_stays_is_told_with_the_command_that_ends_it(tmp_path, monkeypatch, scancel):
    monkeypatch.setattr(srun, "CANCEL_S", 0.5)
    errand = Errand()
    transport = stopped(programs(tmp_path, scancel), errand)
    (note,) = transport.notes
    assert note.endswith(f"scancel --name=flightcheck-sweep-{errand.nonce}")
    assert "holds its nodes until its time limit" in note
