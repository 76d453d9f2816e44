"""Running commands cold and measuring them: wall time, and the memory of every process."""

import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36
MIB = 1024


class Run(NamedTuple):
    """One run: wall seconds to the command's own exit, the largest resident size of any of its
    processes and the sum over all of them (pages they share are counted again), in MiB."""

    seconds: float
    largest_mib: float
    sum_mib: float
    code: int


class Figures(NamedTuple):
    """Medians over the runs, with the spread of the times."""

    label: str
    seconds: float
    fastest: float
    slowest: float
    largest_mib: float
    sum_mib: float


def become_subreaper() -> None:
    """Take over orphans, so that children left behind by a command are measured too."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        print("benchmarks: cannot become a subreaper: memory of children is not counted",
              file=sys.stderr)  # fmt: skip


def run_once(argv: Sequence[str], env: Mapping[str, str]) -> Run:
    """Run `argv` to its end and collect it and whatever it left behind."""
    started = time.perf_counter()
    process = subprocess.Popen(argv, env=dict(env), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    sizes = [usage.ru_maxrss / MIB]
    while True:
        try:
            _, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        sizes.append(usage.ru_maxrss / MIB)
    return Run(seconds, max(sizes), sum(sizes), process.returncode)


def measure(
    commands: Mapping[str, Sequence[str]], env: Mapping[str, str], times: int = 10
) -> list[Figures]:
    """Run all commands in turns, so that a noisy minute hits each alike; medians of `times`."""
    runs: dict[str, list[Run]] = {label: [] for label in commands}
    for label, argv in commands.items():
        run_once(argv, env)  # the first run fills the page cache and writes .pyc files
        assert runs[label] == []
    for _ in range(times):
        for label, argv in commands.items():
            runs[label].append(run_once(argv, env))
    return [_figures(label, done) for label, done in runs.items()]


def _figures(label: str, runs: list[Run]) -> Figures:
    seconds = [run.seconds for run in runs]
    return Figures(
        label,
        statistics.median(seconds),
        min(seconds),
        max(seconds),
        statistics.median(run.largest_mib for run in runs),
        statistics.median(run.sum_mib for run in runs),
    )
