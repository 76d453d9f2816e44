"""`srun flightcheck allreduce`, `--nodes` and the task prolog on the sandbox's real cluster."""

import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import slurm_integration
from slurm_integration.sandbox import cluster

pytestmark = pytest.mark.slurm

HERE = Path(__file__).parent
SOURCE = Path(slurm_integration.__file__).parents[1]
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


@pytest.fixture
def program(tmp_path: Path) -> str:
    """`flightcheck` as the nodes have it."""
    path = tmp_path / "flightcheck"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(SOURCE)!r})\n"
        "from healthcheck import cli\n"
        'cli.COMMANDS["allreduce"] = "slurm_integration.commands.allreduce_nodes:command"\n'
        "cli.main()\n"
    )
    path.chmod(0o755)
    return str(path)


def srun(slurm: Any, *argv: str) -> tuple[int, str, str]:
    done = cluster.client(str(slurm.state), *argv, timeout_s=100)
    return done.returncode, done.stdout, done.stderr


@NEEDS_TORCH
def test_a_step_tests_its_nodes_together(slurm: Any, program: str) -> None:
    own = [
        "--backend",
        "gloo",
        "--nproc",
        "1",
        "--sizes",
        "64K",
        "--localise",
        "never",
        "--timeout",
        "90",
        "--json",
    ]
    options = ("-N2", "--ntasks-per-node=2", "--kill-on-bad-exit=0")
    code, out, err = srun(slurm, "srun", *options, program, "allreduce", "--quick", *own)
    report = json.loads(out)
    assert (code, report["verdict"]) == (0, "go"), err
    assert report["ranks"] == 2, "the second task of each node has nothing to do"
    (whole,) = report["tests"]
    assert whole["end"] == "ok"
    assert whole["busbw_gb_s"] > 0


@NEEDS_TORCH
def test_an_administrator_does_the_same_from_outside(slurm: Any, program: str) -> None:
    own = [
        "--backend",
        "gloo",
        "--nproc",
        "1",
        "--sizes",
        "64K",
        "--timeout",
        "90",
        "--slow-below",
        "0.01",
    ]
    nodes = ("--nodes", "node[05-06]", f"--program={program}")
    code, out, err = srun(slurm, program, "allreduce", *nodes, *own)
    assert code == 0, err
    assert "all_reduce over 2 nodes (node[05-06]), 2 ranks, gloo: go" in out
    assert "round 1  node05–node06" in out


def test_an_absent_node_is_named_within_the_limit(slurm: Any, tmp_path: Path) -> None:
    began = time.monotonic()
    folder = tmp_path / "meet"
    folder.mkdir()
    plan = json.dumps({"folder": str(folder), "late": ["node03"], "join": 8.0, "expect": 48.0})
    options = ("-w", "node[01-04]", "-N4", "--kill-on-bad-exit=0", "--wait=2")
    task = ("env", f"PYTHONPATH={SOURCE}", sys.executable, str(HERE / "agents.py"), plan)
    code, out, err = srun(slurm, "srun", *options, *task)
    assert time.monotonic() - began < 300
    assert code != 0
    report = json.loads(out)
    assert report["absent"] == ["node03"]
    assert report["tests"][0]["nodes"] == ["node01", "node02", "node04"]
    assert "node03 did not show up" in err


def test_the_task_prolog_arms_the_recorder_and_maps_the_ranks(slurm: Any, tmp_path: Path) -> None:
    hook = tmp_path / "task-prolog"
    hook.write_text(f"#!/bin/sh\nPYTHONPATH={SOURCE} {sys.executable} -m prolog.task\nexit 0\n")
    hook.chmod(0o755)
    options = ("-w", "node[01-02]", "-N2", "--ntasks-per-node=2", "--gres=gpu:2")
    where = f"--chdir={tmp_path}"
    show = ("sh", "-c", "echo $SLURM_JOB_ID $TORCH_FR_DUMP_TEMP_FILE")
    code, out, err = srun(slurm, "srun", *options, where, f"--task-prolog={hook}", *show)
    assert code == 0, err
    job = out.split()[0]
    assert {*out.splitlines()} == {f"{job} {tmp_path}/flightcheck-{job}/fr_"}, err
    maps = sorted((tmp_path / f"flightcheck-{job}").iterdir())
    assert [path.name for path in maps] == ["ranks-0-0-node01.jsonl", "ranks-0-0-node02.jsonl"]
    places = [json.loads(line) for path in maps for line in path.read_text().splitlines()]
    told = sorted((p["rank"], p["host"], p["local_rank"]) for p in places)
    assert told == [(0, "node01", 0), (1, "node01", 1), (2, "node02", 0), (3, "node02", 1)]
    assert all(place["pid"] for place in places)
