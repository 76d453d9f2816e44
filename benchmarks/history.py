"""A million events into the history, and `lemons` out of it.

`python -m benchmarks.history [--events N] [--db URL]`: SQLite in a temporary folder by default.
The two are measured apart; lemons as the whole command in a cold process.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from healthcheck.node_event import NodeEvent
from slurm_integration.history.store import Store
from slurm_integration.history.store_rows import NodeRow

NODES = 2000
DAYS = 365
DAY_S = 86_400
TARGET_S = 2.0
KINDS = {
    "xid": 30, "finding": 25, "cleared": 20, "verdict": 10, "job-failure": 6, "drain": 3,
    "link-downed": 4, "excluded": 2,
}  # fmt: skip
"""Percent of the events, from a fleet in which warnings and Xids of programs are most."""
CLASSES = ("hardware/gpu-lost", "network/ib-link", "user/python-exception", "user/cuda-oom")
CODES = (13, 31, 43, 45, 48, 74, 79, 94, 95, 119)


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--db")
    given = parser.parse_args()
    now = time.time()
    with tempfile.TemporaryDirectory() as folder:
        url = given.db or f"sqlite:///{folder}/history.db"
        with Store(url) as store:
            events = list(generate(given.events, now))
            started = time.perf_counter()
            new = store.add(events)
            took = time.perf_counter() - started
            for index in range(NODES):
                store.note(NodeRow(name(index), "h100-sxm", now - DAYS * DAY_S, now))
            print(f"ingest: {new:,} events in {took:.1f} s ({new / took:,.0f} a second)")
            started = time.perf_counter()
            again = store.add(events[:100_000])
            print(f"again: 100,000 of them in {time.perf_counter() - started:.1f} s, {again} new")
            del events
        if not given.db:
            print(f"database: {os.path.getsize(f'{folder}/history.db') / (1 << 20):.0f} MiB")
        for argv in (["lemons", "--since", "365d"], ["lemons"], ["stats", "--since", "365d"]):
            print(f"{' '.join(argv)}: {cold(argv, url):.2f} s (median of 5, target {TARGET_S} s)")
        print(subprocess.run(command(["lemons", "-n", "5"], url), capture_output=True,
                             text=True, check=True).stdout)  # fmt: skip


def command(argv: list[str], url: str) -> list[str]:
    """The command line of flightcheck with this database."""
    module = f"from slurm_integration.commands.{argv[0]} import command; command()"
    return [sys.executable, "-c", module, *argv[1:], "--db", url]


def cold(argv: list[str], url: str) -> float:
    """Median seconds of five runs."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(command(argv, url), check=True, stdout=subprocess.DEVNULL,
                       cwd=Path(__file__).parents[1])  # fmt: skip
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def generate(count: int, now: float) -> Iterator[NodeEvent]:
    """A fleet in which one node of a hundred has ten times its share of what is bad."""
    draw = random.Random(4711)
    weights = [10 if index % 100 == 7 else 1 for index in range(NODES)]
    kinds = draw.choices(list(KINDS), list(KINDS.values()), k=count)
    nodes = draw.choices(range(NODES), weights, k=count)
    for number, (kind, node) in enumerate(zip(kinds, nodes, strict=True)):
        at = now - draw.random() * DAYS * DAY_S
        yield NodeEvent(
            f"{number:016x}{draw.getrandbits(64):016x}", at, name(node), kind,
            boot_id="5f1c3a52-7d0e-4f0f-9a58-3c2a1d7b9e10", stage="prolog", profile="h100-sxm",
            check="gpu-ecc", severity=draw.choice(("warn", "warn", "fail")),
            subject=f"0000:{draw.randrange(8):x}3:00.0", outcome="drained", code=draw.choice(CODES),
            message="uncorrectable ECC errors grew by 3 since the last look", root=True,
            job_id=draw.randrange(1 << 20), uid=1000 + draw.randrange(200),
            klass=draw.choice(CLASSES), nodes=draw.choice((1, 1, 2, 16, 64)),
        )  # fmt: skip


def name(index: int) -> str:
    """`node0007`."""
    return f"node{index:04d}"


if __name__ == "__main__":
    main()
