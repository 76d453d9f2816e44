"""The test inside a stage (the prolog): decide, run, remember. Only here is a child started."""

import sys
import time
from typing import NamedTuple

import msgspec

from healthcheck.allreduce.environment import untrusted
from healthcheck.allreduce.history import History, load_history, remember, with_usual
from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, Plan
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.allreduce.wanted import NotWanted, wanted
from healthcheck.config import Config, section
from healthcheck.host import Host, recorded
from healthcheck.model import Ending, Problem, Report, Snapshot

CHECKS = ("allreduce-integrity", "allreduce-bandwidth")
KILL_S = 1.5
"""Kept back from the stage's deadline to kill a child that hangs."""


class Flown(NamedTuple):
    """What came of it: a result, or why there is none; what to tell besides."""

    result: AllreduceResult | None
    problem: Problem | None
    notes: tuple[str, ...] = ()
    history: History = History()


class Flight(NamedTuple):
    """A stage's snapshot with the test's result in it, and what has to be kept afterwards."""

    node: Snapshot
    notes: tuple[str, ...]
    folder: str = ""
    flown: Flown | None = None

    def remember(self, report: Report) -> tuple[str, ...]:
        """Keep the result, now that the checks have judged it; notes where that fails."""
        if self.flown is None:
            return ()
        found = any(
            outcome.check in CHECKS and outcome.outcome is Ending.FOUND
            for outcome in report.outcomes
        )
        note = remember_flight(self.folder, self.flown, found=found)
        return (note,) if note else ()


def fly(
    host: Host, config: Config, node: Snapshot, profile: str, folder: str, deadline: float
) -> Flight:
    """Run the test if the site wants it for this job, and put what came of it into the snapshot.

    A refused `[allreduce]` table runs nothing, and the checks say why they could not judge.
    """
    try:
        settings = section(config, "allreduce")
    except msgspec.ValidationError as error:
        told = f"[allreduce] is refused: {error}; the test is not run"
        return Flight(_with(node, Problem("failed", told)), (told,))
    assert isinstance(settings, AllreduceSettings)
    flown = run_for_stage(host, settings, node, profile=profile, folder=folder, deadline=deadline)
    if flown.problem is not None:
        return Flight(_with(node, flown.problem), flown.notes)
    flew = msgspec.structs.replace(node, allreduce=flown.result)
    return Flight(flew, flown.notes, folder, flown)


def _with(node: Snapshot, problem: Problem) -> Snapshot:
    return msgspec.structs.replace(node, problems={**node.problems, "allreduce": problem})


def run_for_stage(
    host: Host,
    settings: AllreduceSettings,
    node: Snapshot,
    *,
    profile: str,
    folder: str,
    deadline: float,
) -> Flown:
    """The test for the job in `node`, if it is wanted; at the latest over at `deadline`.

    `deadline` is monotonic. Never raises for anything that the child or the state folder does.
    """
    if recorded(host):
        return Flown(None, Problem("skipped", "a recorded machine has no GPUs to load"))
    history, note = load_history(folder)
    notes = (note,) if note else ()
    left = deadline - time.monotonic() - KILL_S
    plan = wanted(node.job, settings, node, history, profile=profile, left_s=left)
    if isinstance(plan, NotWanted):
        return Flown(None, Problem("skipped", plan.reason), notes)
    interpreter = settings.interpreter or sys.executable
    refusal = untrusted(interpreter)
    if refusal is not None:
        return Flown(_refused(plan, refusal), None, notes, history)
    from healthcheck.allreduce.run import run, start

    until = min(deadline - KILL_S, time.monotonic() + settings.timeout_s)
    result = run(start(interpreter, settings.env), plan, until, host=host)
    return Flown(with_usual(result, history), None, notes, history)


def remember_flight(folder: str, flown: Flown, *, found: bool) -> str | None:
    """Keep the result for later runs once the checks have judged it; a note where that fails.

    `found`: one of the two checks had something to say, so this run is no reference.
    """
    if flown.result is None or flown.result.cause == "untrusted":
        return None
    passed = flown.result.end is AllreduceEnd.OK and not found
    return remember(folder, flown.history, flown.result, passed)


def _refused(plan: Plan, why: str) -> AllreduceResult:
    return AllreduceResult(
        end=AllreduceEnd.COULD_NOT_START,
        backend=plan.backend,
        depth=plan.depth,
        ranks=plan.ranks,
        reason=why,
        cause="untrusted",
    )
