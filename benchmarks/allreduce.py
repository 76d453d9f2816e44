"""From process start to verdict of the all_reduce test, against its transfers alone.

Eight gloo ranks, 16 MiB, on this machine's CPUs. The yardstick is a script that imports torch,
forks eight ranks and makes the same all_reduces (as many, as long, of the same types), but plans,
compares, supervises and reports nothing. Both run in turns; medians.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from healthcheck.allreduce.model import Plan
from healthcheck.allreduce.shapes import make_plan

RANKS = 8
SIZE = "16M"
TIMES = 5
TARGET = 1.15
FLIGHTCHECK = Path(sys.executable).with_name("flightcheck")
BARE = """
import json, os, socket, sys
import torch, torch.distributed as dist
torch.set_num_threads(1)
ranks, calls = json.loads(sys.argv[1])
ops = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
port = listener.getsockname()[1]
pids = []
for rank in range(ranks):
    pid = os.fork()
    if pid == 0:
        listener.close()
        store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
        for op, dtype, count in calls:
            dist.all_reduce(torch.zeros(count, dtype=getattr(torch, dtype)), ops[op])
        store.add("left", 1)
        while int(store.get("left")) < ranks:
            pass
        os._exit(0)
    pids.append(pid)
store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False,
                      master_listen_fd=listener.detach())
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
os._exit(0)
"""


def main() -> None:
    """Measure and print."""
    calls = transfers(make_plan("gloo", "quick", RANKS, sizes=(16 << 20,)))
    bare = [sys.executable, "-I", "-c", BARE, json.dumps([RANKS, calls])]
    with tempfile.TemporaryDirectory() as root:
        ours = [
            str(FLIGHTCHECK), "allreduce", "--backend", "gloo", "--nproc", str(RANKS),
            "--sizes", SIZE, "--profile", "cpu-only", "--root", root, "--json",
        ]  # fmt: skip
        alone = [sys.executable, "-I", "-c", "import torch, torch.distributed"]
        runs: dict[str, list[float]] = {"import": [], "bare": [], "ours": []}
        for number in range(TIMES + 1):
            for label, argv in (("import", alone), ("bare", bare), ("ours", ours)):
                seconds = wall(argv)
                if number:  # the first turn fills the page cache
                    runs[label].append(seconds)
    print(report(runs, len(calls)))


def transfers(plan: Plan) -> list[tuple[str, str, int]]:
    """Every all_reduce that the test makes, in its order."""
    cases = [case for case in plan.cases if case[0] != "avg"]
    timed = [("sum", plan.dtype, size // 4) for size in plan.sizes]
    calls = [("sum", "float32", 1), *cases, *[("sum", "float32", plan.random_count)] * 2]
    for one in timed:
        calls += [one] * plan.warmups + [("sum", "float32", 1)] + [one] * plan.iterations
    return calls


def wall(argv: list[str]) -> float:
    """Seconds from start to exit."""
    env = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    started = time.perf_counter()
    done = subprocess.run(argv, check=False, env=env, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        sys.exit(
            f"{argv[0]} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
        )
    return seconds


def report(runs: dict[str, list[float]], calls: int) -> str:
    """The table and the ratio."""
    labels = {
        "import": "import torch alone",
        "bare": f"import torch, fork {RANKS} ranks, {calls} all_reduces each",
        "ours": "flightcheck allreduce, start to verdict",
    }
    lines = [f"{RANKS} gloo ranks, {SIZE}; {os.cpu_count()} cores, median of {TIMES}\n"]
    lines += [f"{'':48} {'median':>8} {'fastest':>8} {'slowest':>8}"]
    lines += [
        f"{labels[name]:48} {statistics.median(own):8.2f} {min(own):8.2f} {max(own):8.2f}"
        for name, own in runs.items()
    ]
    ratio = statistics.median(runs["ours"]) / statistics.median(runs["bare"])
    fastest = min(runs["ours"]) / min(runs["bare"])
    lines.append(
        f"\nratio of the medians {ratio:.2f}, of the fastest {fastest:.2f}; to reach {TARGET}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
