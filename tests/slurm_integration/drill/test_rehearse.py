"""A rehearsal on a node that is as good as real: other addresses, other counters, own memory."""

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from fake_scontrol import FakeSlurm

from slurm_integration.commands.drill import command
from slurm_integration.drill.rehearse import Rehearsed
from slurm_integration.sandbox.machine.live import build_machine, take_baseline

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")),
    reason="no C compiler: the simulated NVML is compiled from C",
)
FAULTS = ["gpu-missing", "ecc-uncorrected", "ib-flap", "xid-79", "nvlink-down", "leftover-process",
          "zombies", "idle-gen1", "ib-counter-saturated", "power-limit-low"]  # fmt: skip


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    root = str(tmp_path_factory.mktemp("real") / "node02")
    build_machine(root, "h200-sxm", "node02")
    take_baseline(root)
    yield root
    shutil.rmtree(root)


def rehearse(machine: str, fake: FakeSlurm, *argv: str) -> tuple[int, list[Rehearsed]]:
    config = Path(fake.folder / "flightcheck.toml")
    own = Path(machine, "etc/flightcheck/flightcheck.toml").read_text()
    config.write_text(f'{own}\n[drain]\nscontrol = "{fake.program}"\njitter_s = 0\n')
    faults = [word for name in FAULTS for word in ("--fault", name)]
    done = CliRunner().invoke(
        command,
        ["--dry-run", "--json", f"--config={config}", *(argv or (f"--root={machine}",)), *faults],
        standalone_mode=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.exception is None, done.output
    return done.return_value, [msgspec.json.decode(line, type=Rehearsed) for line in lines]


def test_faults_are_found_with_the_decision_and_the_budget_and_nothing_is_changed(machine, fake):
    before = {path: path.read_bytes() for path in Path(machine, "var").rglob("*") if path.is_file()}
    code, told = rehearse(machine, fake)
    ends = {one.fault: one.end for one in told}
    assert code == 0
    assert [name for name in FAULTS if ends[name] == "found"] == [
        name for name in FAULTS if name not in ("zombies", "idle-gen1", "ib-counter-saturated")
    ]
    missing = next(one for one in told if one.fault == "gpu-missing")
    assert (missing.verdict, missing.decision) == ("no-go", "drain")
    assert missing.reason.startswith("flightcheck: no-go gpu-count: ")
    assert "would drain (0 of 1 drains in the window" in missing.budget
    assert next(one for one in told if one.fault == "power-limit-low").decision == "alert"
    assert fake.drained == {}
    assert all("show" in call for call in fake.calls)
    after = {path: path.read_bytes() for path in Path(machine, "var").rglob("*") if path.is_file()}
    assert after == before


def test_why_a_fault_can_not_be_rehearsed_is_said(machine, fake):
    _, told = rehearse(machine, fake)
    why = {one.fault: one.why for one in told if one.end == "not-here"}
    assert why["zombies"] == "processes does not run at this stage"
    assert "must pass" in why["idle-gen1"]
    assert "needs a past" in why["ib-counter-saturated"]


def test_a_snapshot_of_elsewhere_is_enough(machine, fake, tmp_path, monkeypatch):
    from healthcheck.commands.check import command as check

    saved = tmp_path / "node02.json"
    monkeypatch.setenv("FLIGHTCHECK_ROOT", machine)
    monkeypatch.setenv("SLURMD_NODENAME", "node02")
    own = f"{machine}/etc/flightcheck/flightcheck.toml"
    CliRunner().invoke(check, ["--save", str(saved), f"--config={own}"])
    # Other addresses than the simulated node's, as a real one has.
    text = saved.read_text().replace("0000:", "0003:")
    assert "0003:" in text
    saved.write_text(text)
    assert json.loads(text)["gpus"]
    code, told = rehearse(machine, fake, "--snapshot", str(saved))
    assert code == 0
    missing = next(one for one in told if one.fault == "gpu-missing")
    assert missing.end == "found"
    assert "0003:" in missing.reason
    assert os.path.exists(saved)
