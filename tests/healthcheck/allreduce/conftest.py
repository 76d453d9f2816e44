"""Running the real test with gloo, healthy or with a fault in the worker."""

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from healthcheck.allreduce.run import run, start
from healthcheck.allreduce.shapes import make_plan

FAULTY = Path(__file__).parent / "faulty_worker.py"


def children() -> set[int]:
    """Every process on this machine that runs a worker."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if str(FAULTY).encode() in words:
                found.add(int(entry))
    return found


@pytest.fixture
def fly():
    """`fly(fault, ranks, …)`: one run; nothing of it may be left behind."""

    def go(fault="none", ranks=4, *, within=60.0, script=FAULTY, watch=lambda _: None, **change):
        plan = make_plan("gloo", "quick", ranks, sizes=(1 << 20,), timeout_s=4.0, node="node01")
        plan = msgspec.structs.replace(plan, **{"iterations": 3, **change})
        child = start(sys.executable, {"FAULT": fault}, str(script))
        return run(child, plan, time.monotonic() + within, watch=watch)

    if find_spec("torch") is None:
        pytest.skip("torch is not installed (extra `allreduce`)")
    before = children()
    yield go
    left = children() - before
    for _ in range(20):
        if not left:
            break
        time.sleep(0.1)
        left = children() - before
    assert not left, "processes were left behind"
