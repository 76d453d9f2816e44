"""Sweeps of this machine alone: no Slurm, no ssh, no daemon."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_integration.sweep.model import Answer, decode_sweep

BIN = Path(sys.executable).parent


def test_this_machine_is_swept_without_slurm_and_ssh(h100):
    done = h100.run("flightcheck", "sweep", "--via", "local", "--json", "-")
    sweep = decode_sweep(done.stdout.encode())
    (result,) = sweep.results
    assert (result.transport, result.answer) == ("local", Answer.REPORTED)
    assert result.report["profile"] == "h100-sxm"
    assert result.facts["figures"]["gpu_temperature_c"] > 0
    assert any(part.startswith("VBIOS of") for part in result.facts["versions"])
    assert done.returncode == result.verdict.exit_code


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("exit 127", Answer.NOT_INSTALLED),
        ("exec cat /dev/zero", Answer.TOO_MUCH_OUTPUT),
        ("exec sleep 600", Answer.TIMED_OUT),
        ("echo hello", Answer.GARBAGE),
    ],
)
def test_another_program_in_its_place_has_an_answer_of_its_own(tmp_path, h100, script, answer):
    program = tmp_path / "other"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    done = h100.run("flightcheck", "sweep", "--via", "local", "--program", str(program),
                    "--timeout", "1", "--json", "-")  # fmt: skip
    (result,) = decode_sweep(done.stdout.encode()).results
    assert result.answer is answer
    assert done.returncode == 3


def test_it_never_pretends_to_be_another_machine(h100):
    done = h100.run("flightcheck", "sweep", "--via", "local", "-w", "some-other-node")
    assert done.returncode == 64
    assert "this machine alone" in done.stderr


def test_a_refused_configuration_drains_nothing(h100, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("no_such_key = 1\n")
    done = h100.run("flightcheck", "sweep", "--all", "--drain", "--config", str(bad))
    assert done.returncode == 64
    assert "not with a refused configuration" in done.stderr


def test_an_interruption_leaves_no_process_behind(tmp_path, h100):
    program, mark = tmp_path / "slow", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ >{mark}\nexec sleep 600\n")
    program.chmod(0o755)
    process = subprocess.Popen(
        [str(BIN / "flightcheck"), "sweep", "--via", "local", "--program", str(program),
         "--json", str(tmp_path / "out.json")],
        env=h100.environment(), stdout=subprocess.DEVNULL,
        # Whoever runs the tests in the background may have made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    until = time.monotonic() + 240
    while not (mark.exists() and mark.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(240) == 130
    assert json.loads((tmp_path / "out.json").read_text())["results"][0]["answer"] == "interrupted"
    pid = int(mark.read_text())
    until = time.monotonic() + 50
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")
