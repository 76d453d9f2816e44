"""What a person sees on standard error while it runs: bars on a terminal, lines elsewhere."""

import sys
import time
from typing import Any, Protocol

from healthcheck.allreduce.model import Plan

PHASES = ("torch", "connect", "integrity", "compute", "bandwidth")
_KIND = {
    "torch": "torch", "connected": "connect", "case": "integrity", "skipped": "integrity",
    "matmul": "compute", "times": "bandwidth",
}  # fmt: skip
"""Message of the child → the phase it is a step of."""


class Progress(Protocol):
    """Somebody who is told what comes from the child."""

    def plan(self, plan: Plan) -> None:
        """What is going to be done."""

    def watch(self, message: dict[str, Any]) -> None:
        """One message of the child."""

    def close(self) -> None:
        """The end, whatever it was."""


def totals(plan: Plan) -> dict[str, int]:
    """Steps of each phase, over all ranks of this node."""
    products = 3 if plan.backend == "nccl" else 1
    alone = plan.ranks < 2
    return {
        "torch": 1,
        "connect": plan.local,
        "integrity": 0 if alone else plan.local * len(plan.cases),
        "compute": plan.local * products if plan.matmul else 0,
        "bandwidth": 0 if alone else plan.local * len(plan.sizes),
    }


class Quiet:
    """Says nothing (--json)."""

    def plan(self, plan: Plan) -> None:
        """Nothing."""

    def watch(self, message: dict[str, Any]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Lines:
    """One line for each phase that is done, for logs and pipes."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._left: dict[str, int] = {"torch": 1}
        self._path = ""

    def plan(self, plan: Plan) -> None:
        """What is going to be done."""
        self._left = {**totals(plan), "torch": self._left.get("torch", 0)}
        self._say(f"{plan.ranks} ranks, {plan.backend}, {plan.depth}")

    def watch(self, message: dict[str, Any]) -> None:
        """One message of the child."""
        if message["t"] == "path":
            self._path = f"path {message['path']}: "
        if message["t"] == "wrong":
            self._say(f"wrong bits at rank {message['rank']} in {message['case']}")
        phase = _phase(message)
        if phase is None or phase not in self._left:
            return
        self._left[phase] -= 1
        if self._left[phase] == 0:
            self._say(f"{phase} done")

    def close(self) -> None:
        """Nothing more to say."""

    def _say(self, text: str) -> None:
        passed = time.monotonic() - self._began
        sys.stderr.write(f"flightcheck: {passed:6.1f} s  {self._path}{text}\n")
        sys.stderr.flush()


class Bars:
    """A bar for each phase."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bars = RichProgress(
            TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._tasks = {phase: self._bars.add_task(phase, total=None) for phase in PHASES}
        self._bars.start()

    def plan(self, plan: Plan) -> None:
        """What is going to be done."""
        for phase, total in totals(plan).items():
            self._bars.update(self._tasks[phase], total=total, visible=total > 0)

    def watch(self, message: dict[str, Any]) -> None:
        """One message of the child."""
        if message["t"] == "path":
            for task in self._tasks.values():
                self._bars.reset(task)
            self._bars.console.print(f"path {message['path']}")
        phase = _phase(message)
        if phase is not None:
            self._bars.advance(self._tasks[phase])

    def close(self) -> None:
        """Take the bars away."""
        self._bars.stop()


def _phase(message: dict[str, Any]) -> str | None:
    return None if message.get("extra") else _KIND.get(message["t"])


def progress(*, quiet: bool) -> Progress:
    """The form that fits where standard error goes."""
    if quiet:
        return Quiet()
    return Bars() if sys.stderr.isatty() else Lines()
