"""On a machine with CUDA: `pytest -m gpu -s tests/healthcheck/allreduce`.

nccl-tests' all_reduce_perf is run beside ours where it is installed, and the ratio is printed.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from healthcheck.allreduce.choose import choose
from healthcheck.allreduce.model import AllreduceEnd
from healthcheck.allreduce.run import run, run_paths, start
from healthcheck.allreduce.shapes import make_plan
from healthcheck.host import LocalHost
from healthcheck.runner import Request
from healthcheck.runner import run as look

PYTHON = os.environ.get("FLIGHTCHECK_TORCH", sys.executable)
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not os.path.exists("/dev/nvidiactl"), reason="no NVIDIA driver here"),
    pytest.mark.skipif(
        sys.executable == PYTHON and find_spec("torch") is None,
        reason="torch is not installed; name a Python that has it in FLIGHTCHECK_TORCH",
    ),
]


@pytest.fixture(scope="module")
def node():
    return look(Request(LocalHost(), remember=False)).snapshot


@pytest.fixture(scope="module")
def gpus(node):
    return choose(node, "any", "nccl", None, "quick", {})[2]


def fly(gpus, depth="quick", **change):
    plan = make_plan("nccl", depth, len(gpus), gpus=gpus, **change)
    return run(start(PYTHON), plan, time.monotonic() + 300)


def test_the_gpus_of_this_machine_agree(gpus):
    result = fly(gpus)
    assert result.end is AllreduceEnd.OK, result
    assert [m.bus_id for m in result.members] == [gpu.bus_id for gpu in gpus]
    assert {one.dtype for one in result.compute} == {"float32", "bfloat16", "float16"}
    assert result.samples or len(gpus) == 1


def test_our_bandwidth_is_what_nccl_tests_measures(gpus):
    perf = shutil.which("all_reduce_perf")
    if perf is None or len(gpus) < 2:
        pytest.skip("needs nccl-tests' all_reduce_perf and two GPUs")
    ours = fly(gpus, sizes=(1 << 30,)).bandwidth[0].mean_busbw_gb_s
    argv = [perf, "-b", "1G", "-e", "1G", "-g", str(len(gpus)), "-d", "bfloat16", "-w", "5",
            "-n", "20"]  # fmt: skip
    text = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True).stdout
    row = next(line.split() for line in text.splitlines() if re.match(r"\s*1073741824\s", line))
    theirs = float(row[-2])  # in place, as ours is
    print(f"\nbusbw at 1G: ours {ours:.2f}, all_reduce_perf {theirs:.2f}: {ours / theirs:.3f}")
    assert ours == pytest.approx(theirs, rel=0.02)


def test_each_path_is_confirmed_or_says_that_it_is_not(gpus):
    if len(gpus) < 2:
        pytest.skip("needs two GPUs")
    plan = make_plan("nccl", "quick", len(gpus), gpus=gpus, sizes=(256 << 20,))
    paths = run_paths(lambda: start(PYTHON), plan, ["ring", "shm"], time.monotonic() + 300)
    for path in paths:
        assert path.confirmed or path.evidence.startswith("not confirmed"), path
    assert any(path.confirmed for path in paths)
