"""`make storm`: storms of a thousand failing prologs, and a table of what the budget let through.

Exit code 1 where a budget was broken, a healthy node called, a node made more calls than its
bound, or a prolog was late.
"""

import sys
import time

from healthcheck.config import DrainSettings
from slurm_integration.drain import ROUNDS
from slurm_integration.drill.storm.controller import Mood
from slurm_integration.drill.storm.play import Result, Storm, play

SLOW = Mood(reply_s=(1.0, 3.0))
PATIENT = DrainSettings(timeout_s=4.0)
MOST_SHARED, MOST_ALONE = 2, 2 * ROUNDS + 2
HEAD = ("storm", "failing", "seats", "drained", "by exit", "alerted", "calls", "per node",
        "healthy", "p50 s", "p99 s", "late", "took s")  # fmt: skip


def storms(size: int) -> list[Storm]:
    """The whole list, for a cluster in which `size` prologs fail."""
    some = size // 5
    return [
        Storm(name="usual day", failing=size, healthy=some),
        Storm(name="usual day, shared seats", failing=size, healthy=some, shared=True),
        Storm(name="replies take 1-3 s", failing=size, mood=SLOW, settings=PATIENT),
        Storm(name="replies take 1-3 s, shared seats", failing=size, mood=SLOW, shared=True,
              settings=PATIENT),
        Storm(name="clocks 5 min apart", failing=size, clocks_s=150, drained_before=2),
        Storm(name="clocks 5 min apart, shared seats", failing=size, clocks_s=150,
              drained_before=2, shared=True),
        Storm(name="reads are refused", failing=size, mood=Mood(refuse="show")),
        Storm(name="updates are refused", failing=size, mood=Mood(refuse="update")),
        Storm(name="100 requests a second", failing=size, mood=Mood(rate=100)),
        Storm(name="controller gone", failing=size, gone=True),
        Storm(name="one node, usual day", failing=1, nodes=size),
        Storm(name="one node, shared seats", failing=1, nodes=size, shared=True),
    ]  # fmt: skip


def wrong(result: Result) -> str:
    """What an operator would not forgive; "" where all was well."""
    most = MOST_SHARED if result.storm.shared else MOST_ALONE
    told = []
    if len(result.out) > result.seats:
        told.append(f"budget broken: {len(result.out)} drained, {result.seats} seats")
    if result.calls_of_healthy:
        told.append(f"{result.calls_of_healthy} calls of healthy nodes")
    if max(result.slurm.calls.values(), default=0) > most:
        told.append(f"more than {most} calls of one node")
    if result.late:
        told.append(f"{result.late} late")
    if len(result.prologs) != result.storm.failing + result.storm.healthy:
        told.append("a prolog died")
    return "; ".join(told)


def row(result: Result, took: float) -> tuple[str, ...]:
    """One line of the table."""
    return (
        result.storm.name,
        str(len(result.failing)),
        str(result.seats),
        str(result.drained),
        str(len(result.out) - result.drained),
        str(result.count("over-budget", "failed-open")),
        str(sum(result.slurm.calls.values())),
        str(max(result.slurm.calls.values(), default=0)),
        str(result.calls_of_healthy),
        f"{result.seconds(50):.2f}",
        f"{result.seconds(99):.2f}",
        str(result.late),
        f"{took:.1f}",
    )


def main() -> int:
    """Play them all; `--size N` for fewer prologs, words to choose storms by name."""
    argv = sys.argv[1:]
    size = 1000
    if argv[:1] == ["--size"]:
        if len(argv) < 2 or not argv[1].isdigit() or not 5 <= int(argv[1]) <= 5000:
            sys.stderr.write("usage: python -m slurm_integration.drill.storm [--size 5-5000] "
                             "[WORD…]\n")  # fmt: skip
            return 64
        size, argv = int(argv[1]), argv[2:]
    bad = []
    line = "{:<34}" + "{:>9}" * (len(HEAD) - 1)
    print(line.format(*HEAD))
    for storm in storms(size):
        if argv and not any(word in storm.name for word in argv):
            continue
        began = time.monotonic()
        result = play(storm)
        print(line.format(*row(result, time.monotonic() - began)), flush=True)
        if trouble := wrong(result):
            bad.append(f"{storm.name}: {trouble}")
    print("\n".join(["", *bad] if bad else ["", "every budget held"]))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
