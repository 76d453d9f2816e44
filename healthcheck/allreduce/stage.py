"""The test inside a stage (the prolog): decide, run, remember. Only here is a child started."""

import sys
import time
from typing import NamedTuple

from healthcheck.allreduce.environment import untrusted
from healthcheck.allreduce.history import History, load_history, remember, with_usual
from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, Plan
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.allreduce.wanted import NotWanted, wanted
from healthcheck.host import Host, recorded
from healthcheck.model import Problem, Snapshot

KILL_S = 1.5
"""Kept back from the stage's deadline to kill a child that hangs."""


class Flown(NamedTuple):
    """What came of it: a result, or why there is none; what to tell besides."""

    result: AllreduceResult | None
    problem: Problem | None
    notes: tuple[str, ...] = ()
    history: History = History()


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
