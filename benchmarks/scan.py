"""How fast the log scanner is, and how much memory it takes.

A 512-rank job's log of healthy lines with a cascade of time-outs at its end, 1 GB on disk and
10 GB from a repeating reader; beside it Hyperscan alone over the same blocks, Python's `re` as
a user would write it, and a small failed job's log from a cold start.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from io import RawIOBase

from epilog.scan import Source, scan_files
from epilog.scan.blocks import BLOCK
from epilog.scan.matcher import HyperscanMatcher, literal_table
from epilog.signatures import load

RANKS = 512
GB = 10**9
TIMES = 3


def healthy_block(size: int, seed: int = 7) -> bytes:
    """Healthy lines of several frameworks, as 512 ranks write them."""
    draw = random.Random(seed)
    forms = (
        "{r}: [2026-08-10 03:04:{s:02d},{m:03d}] [INFO] [logging.py:96:log_dist] [Rank {r}] "
        "step={n}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]",
        "[default{l}]: iteration {n:8d}/ 500000 | consumed samples: {n:12d} | elapsed time per "
        "iteration (ms): {m}.2 | learning rate: 5.0E-05 | global batch size: 2048 | lm loss: "
        "1.196676E+00 | loss scale: 1.0 | grad norm: 0.{m:03d} | number of nan iterations: 0 |",
        "[rank{r}]: INFO:trainer:epoch 3 batch {n} mean absolute error 0.{m:03d} tokens/s {n}",
        "node{h:03d}:{n}:{n} [{l}] NCCL INFO Channel 0{l}/0 : {r}[{l}] -> {n}[1] via P2P/IPC",
        "Epoch 10:  93%|#########3| {n}/20000 [5:43:21<25:19,  0.90it/s, train_loss=3.{m:03d}]",
    )
    lines: list[str] = []
    written = 0
    while written < size:
        rank = draw.randrange(RANKS)
        line = draw.choice(forms).format(
            r=rank, l=rank % 8, h=rank // 8, s=draw.randrange(60), m=draw.randrange(1000),
            n=draw.randrange(500000),
        )  # fmt: skip
        lines.append(line)
        written += len(line) + 1
    return ("\n".join(lines) + "\n").encode()


def cascade() -> bytes:
    """Rank 3 finds a NaN; 511 ranks time out; torchrun ends them."""
    lines = [
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "/project/train.py", line 101, in <module>',
        "[rank3]: AssertionError: Rank 3: found NaN in local grad norm in backward pass. "
        "Device: 3, node: node000",
    ]
    for rank in range(RANKS):
        if rank == 3:
            continue
        head = f"[rank{rank}]:[E810 03:14:10.{rank:06d}617 ProcessGroupNCCL.cpp"
        lines += [
            f"{head}:683] [Rank {rank}] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=80, NumelOut=80, "
            "Timeout(ms)=600000) ran for 600003 milliseconds before timing out.",
            f"{head}:2241] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by "
            "watchdog at work sequence id: 4711 PG status: last enqueued work: 4712, last "
            "completed work: 4710",
            f"{head}:758] [Rank {rank}] To avoid data inconsistency, we are taking the entire "
            "process down.",
        ]
    return ("\n".join(lines) + "\n").encode()


class Repeated(RawIOBase):
    """A log of any size that needs no disk: one block again and again, then the cascade."""

    def __init__(self, block: bytes, size: int) -> None:
        self._pieces = self._make(block, size)

    def _make(self, block: bytes, size: int) -> Iterator[bytes]:
        for _ in range(size // len(block)):
            for at in range(0, len(block), BLOCK):
                yield block[at : at + BLOCK]
        yield cascade()

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:  # type: ignore[override]
        """The next piece."""
        return next(self._pieces, b"")


def write_log(path: str, size: int) -> None:
    """A log of about `size` bytes."""
    block = healthy_block(64 << 20)
    with open(path, "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.write(cascade())


def scan_path(path: str) -> None:
    """Child: scan a file and say how long it took, its own peak memory, and what was found."""
    before = time.process_time()
    started = time.perf_counter()
    result = scan_files([path])
    report(result.bytes_read, started, before, len(result.evidence), len(result.works))


def scan_endless(size: int) -> None:
    """Child: the same over a repeating reader."""
    block = healthy_block(16 << 20)
    before = time.process_time()
    started = time.perf_counter()
    result = scan_files([Source("endless", Repeated(block, size))])  # type: ignore[arg-type]
    report(result.bytes_read, started, before, len(result.evidence), len(result.works))


def hyperscan_alone(path: str) -> None:
    """Child: the literals of all signatures, no lines, no numbers: what the engine can do."""
    literals, _ = literal_table([s.triggers for s in load().signatures])
    matcher = HyperscanMatcher(literals)
    started, before, total, hits = time.perf_counter(), time.process_time(), 0, 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(BLOCK):
            total += len(chunk)
            hits += len(matcher.scan(memoryview(chunk)))
    report(total, started, before, hits, 0)


def python_re(path: str) -> None:
    """Child: the first 5 MB with one alternation of the same literals."""
    literals, _ = literal_table([s.triggers for s in load().signatures])
    pattern = re.compile(b"|".join(re.escape(literal) for literal in literals))
    with open(path, "rb") as file:
        data = file.read(5_000_000)
    started, before = time.perf_counter(), time.process_time()
    report(len(data), started, before, sum(1 for _ in pattern.finditer(data)), 0)


def report(total: int, started: float, before: float, found: int, works: int) -> None:
    """One line of figures for the parent."""
    wall, cpu = time.perf_counter() - started, time.process_time() - before
    with open("/proc/self/status") as status:  # getrusage's peak counts the parent's as well
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    print(f"{total / GB:.2f} {wall:.3f} {cpu:.3f} {peak:.0f} {found} {works}")


def child(*argv: str) -> list[float]:
    """Run this module anew, so that memory is its own; the median by wall time of TIMES runs."""
    runs = []
    for _ in range(TIMES):
        output = subprocess.run(
            [sys.executable, "-m", "benchmarks.scan", *argv],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        runs.append([float(part) for part in output.split()])
    return sorted(runs, key=lambda run: run[1])[len(runs) // 2]


def show(label: str, run: list[float]) -> None:
    """One row."""
    total, wall, cpu, peak, found, works = run
    print(f"{label:34} {total:6.2f} GB {wall:8.3f} s {total / wall:6.2f} GB/s "
          f"{cpu:8.3f} s cpu {peak:5.0f} MiB  {found:.0f} found, {works:.0f} works")  # fmt: skip


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", default="")
    parser.add_argument("--path", default="")
    parser.add_argument("--size", type=int, default=GB)
    options = parser.parse_args()
    children = {
        "path": lambda: scan_path(options.path),
        "endless": lambda: scan_endless(options.size),
        "alone": lambda: hyperscan_alone(options.path),
        "re": lambda: python_re(options.path),
    }
    if options.what:
        children[options.what]()
        return
    with tempfile.TemporaryDirectory() as folder:
        log, small = os.path.join(folder, "job.log"), os.path.join(folder, "small.log")
        write_log(log, options.size)
        with open(small, "wb") as file:
            file.write(healthy_block(20_000) + cascade()[:20_000])
        show("scan, 1 GB of 512 ranks", child("--what=path", f"--path={log}"))
        show("Hyperscan alone on its blocks", child("--what=alone", f"--path={log}"))
        show("Python re, one alternation", child("--what=re", f"--path={log}"))
        show("scan, 40 KB of a small job", child("--what=path", f"--path={small}"))
    show("scan, 10 GB from a reader", child("--what=endless", f"--size={10 * options.size}"))


if __name__ == "__main__":
    main()
