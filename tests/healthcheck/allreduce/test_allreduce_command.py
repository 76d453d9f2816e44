"""`flightcheck allreduce`, as a person and as a program call it."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, BusBandwidth, PathRun
from healthcheck.allreduce.plot import save_plot
from healthcheck.allreduce.report import to_table

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
MAIN = "from healthcheck.cli import COMMANDS, main; COMMANDS.setdefault('allreduce', 'healthcheck.commands.allreduce:command'); main()"  # noqa: E501


@pytest.fixture
def node(tmp_path):
    """A machine without GPUs."""
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    return tmp_path


def call(node, *argv, timeout=240):
    return subprocess.run(
        [sys.executable, "-c", MAIN, "allreduce", "--root", str(node), *argv],
        capture_output=True, text=True, timeout=timeout, cwd="/",
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip


@needs_torch
def test_a_healthy_node_goes_and_remembers(node):
    done = call(node, "--nproc", "2", "--sizes", "1M,64K")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks, gloo, quick: ok" in done.stdout
    assert "GO" in done.stdout
    assert [
        line.split()[0] for line in done.stdout.splitlines() if line.strip()[:2] in ("1M", "64")
    ]
    assert "integrity done" in done.stderr
    kept = json.loads((node / "var/lib/flightcheck/allreduce.json").read_bytes())
    assert kept["runs"][0]["passed"] is True
    assert set(kept["runs"][0]["busbw_gb_s"]) == {"65536", "1048576"}


@needs_torch
def test_json_carries_verdict_findings_and_facts(node):
    done = call(node, "--nproc", "2", "--sizes", "64K", "--json", "--seed", "5")
    told = json.loads(done.stdout)
    assert (done.returncode, told["verdict"], told["result"]["seed"]) == (0, "go", 5)
    assert done.stderr == ""
    assert {o["check"] for o in told["report"]["outcomes"]} == {
        "allreduce-integrity", "allreduce-bandwidth",
    }  # fmt: skip


def test_an_interpreter_without_torch_is_unknown(node):
    done = call(node, "--interpreter", "/usr/bin/python3")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "No module named 'torch'" in done.stdout


def test_a_node_that_should_have_gpus_and_shows_none_is_no_go(node):
    done = call(node, "--profile", "h100-sxm")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "NVML shows no GPU" in done.stdout


@pytest.mark.parametrize(
    "argv",
    [["--sizes", "1X"], ["--paths", "warp"], ["--nproc", "0"], ["--backend", "mpi"],
     ["--plot", "x.pdf"], ["--timeout", "0"], ["--paths", "nic", "--backend", "gloo"]],
)  # fmt: skip
def test_a_usage_error_is_64_and_never_a_verdict(node, argv):
    done = call(node, *argv)
    assert done.returncode == 64, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


POINTS = (
    BusBandwidth(1 << 20, "bfloat16", 20, 1e-4, 9e-5, 18.0, 20.0, 18.0),
    BusBandwidth(1 << 30, "bfloat16", 20, 4e-3, 3.9e-3, 470.0, 480.0, 469.0, 3, 0.001, 465.0, 5),
)
RESULT = AllreduceResult(
    end=AllreduceEnd.OK, backend="nccl", depth="full", ranks=8, bandwidth=POINTS, seed=9,
    cases=("sum int32 1021",), skipped=("avg: why",), torch="2.9", nccl="2.27",
    paths=(PathRun("nic", False, "not confirmed: it shows P2P", AllreduceEnd.OK, None, POINTS),),
)  # fmt: skip


def test_the_table_shows_sizes_figures_and_unconfirmed_paths():
    table = to_table(RESULT)
    assert "all_reduce over 8 ranks, nccl, full: ok" in table
    assert any(line.split()[:2] == ["1G", "470"] for line in table.splitlines())
    assert "3 (+1.0 ms)" in table
    assert "NOT CONFIRMED" in table
    assert max(len(line) for line in table.splitlines()) <= 110


def test_escape_sequences_of_a_child_reach_no_terminal():
    evil = AllreduceResult(
        end=AllreduceEnd.DIED, backend="nccl", depth="quick", ranks=2,
        reason="\x1b[2Jgone", log=("\x1b]0;x\x07",),
    )  # fmt: skip
    assert "\x1b" not in to_table(evil)


@pytest.mark.parametrize(("name", "magic"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_a_plot_is_written(tmp_path, name, magic):
    pytest.importorskip("matplotlib")
    save_plot(RESULT, str(tmp_path / name), {1 << 30: 480.0})
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_a_report_without_any_figure_still_plots(tmp_path):
    pytest.importorskip("matplotlib")
    bare = AllreduceResult(end=AllreduceEnd.HUNG, backend="nccl", depth="quick", ranks=8)
    save_plot(bare, str(tmp_path / "x.png"), {})


def test_bars_follow_the_phases(monkeypatch):
    from healthcheck.allreduce.progress import Bars, totals
    from healthcheck.allreduce.shapes import make_plan

    plan = make_plan("gloo", "quick", 2)
    bars = Bars()
    try:
        bars.plan(plan)
        for kind, count in (("torch", 1), ("connected", 2), ("matmul", 2), ("times", 2)):
            for _ in range(count):
                bars.watch({"t": kind, "rank": 0})
        bars.watch({"t": "case", "extra": True})
        done = {t.description: (t.completed, t.total) for t in bars._bars.tasks}
    finally:
        bars.close()
    assert done["integrity"] == (0, totals(plan)["integrity"])
    assert done["torch"] == (1, 1)
    assert done["bandwidth"] == (2, 2)
