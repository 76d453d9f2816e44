"""Eleven faults made for real on rank 2 of torch.distributed jobs on a real Slurm cluster, under
srun and under torchrun: the epilog names the class, the rank and the node.

CI runs some of them; `make test-faults` runs them all and prints the table.
"""

import importlib.util
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from slurm_flight import Flight

from slurm_integration.sandbox import cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.timeout(900),
]
CLASSES = {
    "raise": {"user/python-exception"},
    "nan": {"user/nan"},
    "shape": {"user/desync"},
    "skip": {"user/desync"},
    "other": {"user/desync"},
    "kill": {"unknown/sigkill"},
    "segv": {"user/segfault"},
    "hang": {"user/desync", "unknown/hang"},
    "disk": {"infrastructure/fs-full"},
    "exit0": {"user/desync"},
    "barrier": {"user/desync", "unknown/hang"},
}
ALL = [(fault, how) for fault in CLASSES for how in ("srun", "torchrun")]
IN_CI = [
    ("raise", "torchrun"), ("kill", "torchrun"), ("shape", "torchrun"), ("hang", "srun"),
    ("exit0", "srun"), ("skip", "torchrun"), ("other", "srun"), ("disk", "torchrun"),
]  # fmt: skip
ASKED = os.environ.get("FLIGHTCHECK_FAULTS", "")
CHOSEN = ALL if ASKED == "all" else [one for one in ALL if "-".join(one) in ASKED] or IN_CI
PROGRAM = Path(__file__).with_name("faulty_job.py")
RANK_A_TASK = "srun -l --kill-on-bad-exit=0 {python} {program} {fault} {folder}"
# Each node of a real cluster has a host name of its own; here they share one machine.
AGENT_A_NODE = (
    "srun --ntasks=2 --ntasks-per-node=1 unshare --uts sh -c 'hostname $SLURMD_NODENAME && exec "
    "{python} -m torch.distributed.run --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d "
    "--rdzv-endpoint=127.0.0.1:{port} --rdzv-id=$SLURM_JOB_ID --local-addr=127.0.0.1 "
    "{program} {fault} {folder}'"
)


@pytest.fixture(scope="module")
def flight():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="fc-torch-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield Flight(folder)
    finally:
        if kept := os.environ.get("FLIGHTCHECK_KEEP_LOGS"):
            shutil.copytree(
                folder,
                kept,
                dirs_exist_ok=True,
                ignore_dangling_symlinks=True,
                ignore=shutil.ignore_patterns("nodes", "munge", "store"),
            )
        cluster.down(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def jobs(flight) -> dict[tuple[str, str], int]:
    """All jobs queued at once; Slurm runs one after the other on the two nodes."""
    return {case: submit(flight, *case) for case in CHOSEN}


def submit(flight: Flight, fault: str, how: str) -> int:
    """As root: only root may be able to run our Python."""
    folder = flight.state / f"torch-{fault}-{how}"
    folder.mkdir()
    line = RANK_A_TASK if how == "srun" else AGENT_A_NODE
    return flight.sbatch(
        f"--chdir={folder}", "--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=8",
        "--export=ALL,TORCH_FR_BUFFER_SIZE=200,OMP_NUM_THREADS=1,GLOO_SOCKET_IFNAME=lo",
        wrap=line.format(python=sys.executable, program=PROGRAM, fault=fault, folder=folder,
                         port=free_port()),
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(("fault", "how"), CHOSEN, ids=str)
def test_the_rank_that_went_wrong_is_found_in_a_real_job(fault, how, flight, jobs):
    report = flight.report(jobs[fault, how], seconds=600)
    root = report["root"]
    told = (report["class"], root, report["drain"], report["steps"])
    print(f"{fault:8} {how:8} {report['class']:24} ranks {root['ranks']} nodes {root['nodes']}")
    # torchrun gives out ranks as its agents arrive, so the job itself says where rank 2 was.
    where = (flight.state / f"torch-{fault}-{how}" / "rank-2").read_text()
    assert root["ranks"] == [2], told
    assert root["nodes"] == [where], told
    assert report["class"] in CLASSES[fault], told
    assert report["drain"] != "yes", told
    assert flight.drained() == {}
