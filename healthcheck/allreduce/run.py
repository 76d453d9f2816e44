"""One test from beginning to end: child, plan, supervision, judgement; and path by path."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from healthcheck.allreduce import paths
from healthcheck.allreduce.assess import assess
from healthcheck.allreduce.environment import child_environment, plan_environment
from healthcheck.allreduce.launch import Child
from healthcheck.allreduce.model import WORKER, AllreduceResult, PathRun, Plan
from healthcheck.allreduce.nccl_log import parse_nccl_log
from healthcheck.allreduce.sampling import Sampler
from healthcheck.allreduce.supervise import supervise
from healthcheck.allreduce.told import Told
from healthcheck.host import Host, LocalHost

Watch = Callable[[dict[str, Any]], None]


def _nobody(_: dict[str, Any]) -> None:
    pass


def start(
    interpreter: str, site: Mapping[str, str] | None = None, script: str | None = None
) -> Child:
    """Start a child now: it imports torch (over a second) while the caller still plans.

    `site`: variables the site wants set. `script`: another worker, for tests.
    """
    return Child(interpreter, script or WORKER, child_environment(os.environ, site or {}))


def run(
    child: Child,
    plan: Plan,
    deadline: float,
    *,
    watch: Watch = _nobody,
    host: Host | None = None,
) -> AllreduceResult:
    """Run `plan` in a started child until `deadline` (monotonic); the child is gone afterwards.

    This is also what each node of a run over several does for its own ranks. `watch` is called
    with every message of the child. Never raises for anything that the child does.
    """
    return _run(child, plan, deadline, watch, host)[1]


def _run(
    child: Child, plan: Plan, deadline: float, watch: Watch, host: Host | None
) -> tuple[Told, AllreduceResult]:
    left = max(1.0, deadline - time.monotonic())
    fitted = msgspec.structs.replace(
        plan,
        env=plan_environment(plan),
        timeout_s=min(plan.timeout_s, left),
        join_s=min(plan.join_s, left),
    )
    child.send(fitted.message())
    sampler = Sampler(host or LocalHost()) if plan.backend == "nccl" else None
    told = supervise(child, fitted, deadline, watch, sampler)
    return told, assess(told, fitted, sampler.samples if sampler else ())


def run_paths(
    begin: Callable[[], Child],
    plan: Plan,
    names: Sequence[str],
    deadline: float,
    *,
    adapters: Sequence[str] = (),
    watch: Watch = _nobody,
) -> tuple[PathRun, ...]:
    """The plan again for each path, and whether NCCL's own log confirms that it was taken."""
    runs = []
    for name in names:
        watch({"t": "path", "path": name})
        env = paths.environment(name, adapters)
        forced = msgspec.structs.replace(plan, path=name, env=plan.env | env)
        told, result = _run(begin(), forced, deadline, watch, None)
        confirmed, evidence = paths.confirm(name, parse_nccl_log(told.output))
        runs.append(
            PathRun(
                path=name,
                confirmed=confirmed,
                evidence=evidence,
                end=result.end,
                reason=result.reason,
                bandwidth=result.bandwidth,
            )
        )
    return tuple(runs)
