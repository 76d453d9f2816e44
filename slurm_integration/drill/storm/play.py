"""One storm: forked prologs that fail, and some that do not, let go in the same second."""

import gc
import os
import random
import subprocess  # noqa: TID251 - the storm's door to the C compiler
import sys
import tempfile
import time
from statistics import quantiles
from typing import NamedTuple

import msgspec

from healthcheck.config import Config, DrainSettings
from healthcheck.guard import GRACE_S
from healthcheck.model import Action, Ending, Job, Outcome, Report, Verdict, fail
from slurm_integration import act
from slurm_integration import drain as draining
from slurm_integration.drill.storm import server
from slurm_integration.drill.storm.controller import Controller, Mood
from slurm_integration.policy import Do, decide
from slurm_integration.sandbox.nvml.build import BuildError, find_compiler

_CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scontrol.c")
REASON = "flightcheck: no-go gpu-count: 7 of 8 GPUs visible"


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """What breaks loose. `name` is for the table.

    `failing` and `healthy` prologs begin within `within_s` and have `deadline_s` each. `shared`:
    with seats_dir. `gone`: nobody listens. Clocks are wrong by up to `clocks_s` either way. The
    controller has `drained_before` of our drains, one each minute from the window's beginning on.
    """

    name: str
    failing: int
    healthy: int = 0
    nodes: int = 0
    within_s: float = 1.0
    deadline_s: float = 8.0
    mood: Mood = Mood()
    shared: bool = False
    gone: bool = False
    clocks_s: float = 0.0
    drained_before: int = 0
    settings: DrainSettings = DrainSettings()


class Prolog(msgspec.Struct, frozen=True):
    """How one prolog ended. `seconds`: from its beginning to its decision."""

    node: str
    outcome: str
    seconds: float
    calls: int


class Result(NamedTuple):
    """A storm and what it left."""

    storm: Storm
    prologs: tuple[Prolog, ...]
    slurm: server.Outcome
    seats: int
    """What the budget had left when it began."""

    def count(self, *outcomes: str) -> int:
        """Prologs that ended so."""
        return sum(one.outcome in outcomes for one in self.prologs)

    @property
    def failing(self) -> list[Prolog]:
        """Those whose node was sick."""
        return [one for one in self.prologs if one.outcome != "pass"]

    @property
    def drained(self) -> int:
        """New drains, by the controller's own list."""
        return len(self.slurm.drained) - self.storm.drained_before

    @property
    def out(self) -> set[str]:
        """Nodes that this storm took out of service, also those that Slurm drains by itself."""
        left = {one.node for one in self.prologs if one.outcome == "left-to-slurm"}
        return {node for node in self.slurm.drained if node in self._sick} | left

    @property
    def _sick(self) -> set[str]:
        return {one.node for one in self.failing}

    @property
    def calls_of_healthy(self) -> int:
        """Requests by nodes that were healthy."""
        return sum(count for node, count in self.slurm.calls.items() if node not in self._sick)

    def seconds(self, percent: int) -> float:
        """A percentile of the time to a decision."""
        times = [one.seconds for one in self.failing]
        return quantiles(times, n=100)[percent - 1] if len(times) > 1 else times[0]

    @property
    def late(self) -> int:
        """Prologs that were not done when the guard over a hook takes it for stuck."""
        return sum(one.seconds > self.storm.deadline_s + GRACE_S for one in self.prologs)


def play(storm: Storm) -> Result:
    """Let it break loose in a folder of its own. Raises BuildError, OSError."""
    with tempfile.TemporaryDirectory(prefix="fc-storm-", dir="/tmp") as folder:
        total = max(storm.nodes, storm.failing + storm.healthy + storm.drained_before)
        names = [f"node{number:04d}" for number in range(1, total + 1)]
        controller = Controller(names, storm.mood)
        began = time.time()
        for number, name in enumerate(names[total - storm.drained_before :]):
            controller.drain(name, REASON, began - storm.settings.window_s + 60 * (number + 1))
        _install(folder, names[: storm.failing + storm.healthy])
        if storm.gone:
            prologs = _let_go(folder, storm, names)
            slurm = server.Outcome({}, tuple(names[total - storm.drained_before :]), 0, 0, 0)
        else:
            with server.serving(folder, controller):
                prologs = _let_go(folder, storm, names)
            slurm = server.outcome(folder)
    limits = storm.settings
    seats = min(limits.max_nodes, max(1, int(total * limits.max_percent / 100)))
    return Result(storm, prologs, slurm, seats - storm.drained_before)


def _install(folder: str, names: list[str]) -> None:
    client = f"{folder}/scontrol"
    argv = [find_compiler(), "-O2", "-Wall", "-Werror", "-o", client, _CLIENT]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    if done.returncode != 0:
        raise BuildError(f"the storm's scontrol was not compiled: {done.stderr[-1000:]}")
    for name in names:
        # One name a node, so that the controller knows who calls.
        os.makedirs(f"{folder}/bin/{name}")
        os.symlink(client, f"{folder}/bin/{name}/scontrol")
    os.mkdir(f"{folder}/seats", 0o700)


def _let_go(folder: str, storm: Storm, names: list[str]) -> tuple[Prolog, ...]:
    results = f"{folder}/results"
    gate, opener = os.pipe()
    chance = random.Random(7)  # noqa: S311 - a storm that can be had again
    gc.freeze()
    children = []
    for number, name in enumerate(names[: storm.failing + storm.healthy]):
        delay = chance.uniform(0, storm.within_s)
        skew = chance.uniform(-storm.clocks_s, storm.clocks_s)
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            _child(gate, results, folder, storm, name, number < storm.failing, delay, skew)
        children.append(pid)
    os.close(gate)
    os.close(opener)  # all at once
    for pid in children:
        os.waitpid(pid, 0)
    gc.unfreeze()
    with open(results, "rb") as file:
        return tuple(msgspec.json.decode(line, type=Prolog) for line in file)


def _child(
    gate: int, results: str, folder: str, storm: Storm, node: str, sick: bool,
    delay: float, skew: float,
) -> None:  # fmt: skip
    """One prolog, from the moment its probes are done."""
    try:
        os.read(gate, 1)
        time.sleep(delay)
        if skew:
            true = time.time
            time.time = lambda: true() + skew
        began = time.monotonic()
        outcome, calls = _prolog(folder, storm, node, began + storm.deadline_s, sick=sick)
        line = Prolog(node, outcome, round(time.monotonic() - began, 3), calls)
        with open(results, "ab", buffering=0) as file:
            file.write(msgspec.json.encode(line) + b"\n")
    finally:
        os._exit(0)


def _prolog(
    folder: str, storm: Storm, node: str, deadline: float, *, sick: bool
) -> tuple[str, int]:
    """The end of prolog/main.py: decide, and drain where that is the decision."""
    found = (fail("node", "7 of 8 GPUs visible", action=Action.REBOOT),) if sick else ()
    outcome = Outcome("gpu-count", Ending.FOUND if sick else Ending.PASSED, found)
    verdict = Verdict.NO_GO if sick else Verdict.GO
    report = Report(verdict, node, "h100-sxm", "prolog", 0.1, (outcome,))
    settings = msgspec.structs.replace(
        storm.settings,
        scontrol=f"{folder}/bin/{node}/scontrol",
        seats_dir=f"{folder}/seats" if storm.shared else None,
    )
    config = Config(dry_run=False, drain=settings)
    decision = decide(report, config)
    if decision.do is not Do.DRAIN:
        return "pass", 0
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    done: draining.Decision = act.drain(report, decision, config, Job(4711), deadline)
    return done.outcome.value, done.reads + done.updates
