"""One run of the health program: look, judge, act, remember. No Slurm call where all is well."""

import fcntl
import os
from collections.abc import Iterable, Mapping

import msgspec

from healthcheck import guard
from healthcheck.config import CONFIG_PATH, Config, load_config
from healthcheck.events import Deed
from healthcheck.host import Host, root_of
from healthcheck.model import Report
from healthcheck.own_folder import own_folder
from healthcheck.reading import Reading
from healthcheck.runner import Request, keep_baseline, run, state_folder
from slurm_integration.hook import leave_file, remember, say, tell
from slurm_integration.policy import Decision, Do, decide
from slurm_integration.verdict_file import jobs_here

LAST_REPORT = "health.json"
"""In the state folder: the report of the last health run."""
LOCK = "health.lock"
MARGIN_S = 0.2


def run_health(
    host: Host, environment: Mapping[str, str], early: Iterable[Reading], started: float
) -> int:
    """Look at the node as it is now; always 0, since slurmd only logs how a health program ends.

    While a job runs here the baseline stays where its prolog put it: what grows in the meantime
    belongs to the job, and its epilog must still see it.
    """
    path = environment.get("FLIGHTCHECK_CONFIG", CONFIG_PATH)
    config, notes, refused = load_config(path, verify=False)
    guard.promise(started + config.deadline_s)
    folder = state_folder(host, config)
    lock = _lock(folder)
    if lock is None:
        say("another health run is at work here; this one leaves")
        return 0
    request = Request(
        host=host,
        stage="health",
        config=config,
        notes=tuple(notes),
        node=environment.get("SLURMD_NODENAME"),
        refused=refused,
        unverified=path,
        remember=False,  # only after it has acted
    )
    result = run(request, early, started)
    # There is no job to send elsewhere.
    decision = decide(result.report, msgspec.structs.replace(config, on_unknown="run"))
    tell(result.report, decision, None)
    deed = _act(result.report, decision, config, started + config.deadline_s - MARGIN_S)
    if not jobs_here(root_of(host)):
        note = keep_baseline(request, result)
        if note:
            say(f"note: {note}")
    _keep(folder, result.report)
    remember(folder, result, decision, deed, config)
    if config.notify.get("on_event"):
        _notify(folder, config, started)
    os.close(lock)
    return 0


def _act(report: Report, decision: Decision, config: Config, deadline: float) -> Deed | None:
    """Carry the decision out; what was done."""
    if decision.do is Do.PASS:
        return None
    if decision.do is not Do.DRAIN:
        return Deed("alert", reason=decision.why)
    from slurm_integration.act import drain  # costs a failing node alone

    done = drain(report, decision, config, None, deadline)
    return Deed("drain", done.outcome.value, done.reason)


def _notify(folder: str, config: Config, started: float) -> None:
    """Hand new events to the site's program; what this look found is among them."""
    import time

    from slurm_integration.notify.deliver import BUDGET_S, deliver
    from slurm_integration.notify.settings import settings_of

    settings, trouble = settings_of(config.notify)
    guard.promise(time.monotonic() + BUDGET_S + settings.timeout_s)
    for note in [trouble] if trouble else deliver(folder, settings, time.time()):
        say(f"note: {note}")


def _lock(folder: str) -> int | None:
    """The lock of this node's health runs; None where another one has it.

    Where it cannot be had at all (no room, read-only) the run goes on without: a slurmd starts one
    at a time.
    """
    try:
        own_folder(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(f"{folder}/{LOCK}", flags, 0o600)
    except OSError:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _keep(folder: str, report: Report) -> None:
    """Leave the report where people find it."""
    from healthcheck.report.json import to_json

    leave_file(f"{folder}/{LAST_REPORT}", to_json(report).encode() + b"\n")
