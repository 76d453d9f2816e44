"""`sweep --deep` on a real Slurm: torch over gloo on idle nodes, one of which cannot take part."""

import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(find_spec("torch") is None, reason="needs torch"),
]
BIN = Path(sys.executable).parent
SMALL = tuple(
    f"--deep-with={word}"
    for word in ("--backend=gloo", "--nproc=1", "--sizes=64K", "--quick", "--slow-below=0.01")
)


def cannot_start(fleet, node: str) -> None:
    """On this node the test's Python is not there."""
    root = fleet.root(node)
    fleet.impostor(
        node,
        f"export FLIGHTCHECK_ROOT={root} LD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu\n"
        f'case "$1" in allreduce) exec {BIN}/flightcheck "$@" --interpreter=/bin/false ;;\n'
        f'*) exec {BIN}/flightcheck "$@" ;; esac',
    )


def test_idle_nodes_are_tested_together_and_the_others_are_named(fleet):
    fleet.break_("node04", "xid-79")
    fleet.slurm.run("sbatch", "-w", "node03", "--exclusive", "--output=/dev/null",
                    "--wrap=sleep 60")  # fmt: skip
    fleet.slurm.wait(lambda: fleet.slurm.node("node03").base == "ALLOCATED")
    code, sweep = fleet.sweep("-w", "node[01-04]", "--deep", *SMALL)
    assert code == 2  # node04's own checks
    assert [f for f in sweep.comparison.findings if f.kind == "allreduce"] == []
    (metric,) = [m for m in sweep.comparison.metrics if m.name == "allreduce_gb_s"]
    assert set(metric.values) == {"node01", "node02"}
    told = " ".join(sweep.notes)
    assert "node03 not tested: not idle" in told
    assert "node04 not tested: no-go" in told
    assert "--deep" not in fleet.slurm.run("squeue")


def test_a_node_that_fails_the_test_is_named_and_its_partners_are_not(fleet):
    cannot_start(fleet, "node02")
    _, sweep = fleet.sweep("-w", "node[01-02,05-06]", "--deep", *SMALL)
    found = [f for f in sweep.comparison.findings if f.kind == "allreduce"]
    assert [f.nodes for f in found] == [("node02",)], (found, sweep.notes)
    assert not fleet.slurm.node("node02").held  # told, never drained by this


def test_an_early_end_ends_the_slurm_job_and_keeps_what_arrived(fleet):
    argv = fleet.argv("-w", "node[05-06]", "--deep", *SMALL)
    sweep = subprocess.Popen(
        argv, env=fleet.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "deep: all_reduce over node[05-06]" in sweep.stderr.readline()
    time.sleep(1)
    sweep.send_signal(signal.SIGTERM)  # SIGINT may be ignored by whoever started the tests
    out, _ = sweep.communicate(timeout=240)
    assert "2 go of 2 nodes" in out and "deep: ended early" in out
    fleet.slurm.wait(lambda: not fleet.slurm.run("squeue", "-h"))
