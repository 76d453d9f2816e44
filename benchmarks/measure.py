"""Running commands cold, in turns, and summing up: wall time, and the memory of every process."""

import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

COLD = Path(__file__).with_name("cold.py")


class Run(NamedTuple):
    """One run: wall seconds to the command's own exit, the largest resident size of any of its
    processes and the sum over all of them (pages they share are counted again), in MiB."""

    seconds: float
    largest_mib: float
    sum_mib: float
    code: int


class Figures(NamedTuple):
    """Medians over the runs, with the spread of the times and the worst exit code."""

    label: str
    seconds: float
    fastest: float
    slowest: float
    largest_mib: float
    sum_mib: float
    code: int


def run_once(argv: Sequence[str], env: Mapping[str, str]) -> Run:
    """Run `argv` to its end and collect it and whatever it left behind."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(COLD), *argv],
        env=dict(env),
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, code, *sizes = done.stdout.split()
    mib = [int(size) / 1024 for size in sizes]
    return Run(float(seconds), max(mib), sum(mib), int(code))


def measure(
    commands: Mapping[str, Sequence[str]], env: Mapping[str, str], times: int = 10
) -> list[Figures]:
    """Run all commands in turns, so that a noisy minute hits each alike; medians of `times`."""
    for argv in commands.values():
        run_once(argv, env)  # fills the page cache
    runs: dict[str, list[Run]] = {label: [] for label in commands}
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
        max(abs(run.code) for run in runs),
    )
