"""One prolog: look, judge, act. Nothing here is slow or talks to Slurm unless the node failed."""

import os
import sys
from collections.abc import Iterable, Mapping

from healthcheck.config import CONFIG_PATH, Config, load_config
from healthcheck.host import Host
from healthcheck.model import Ending, Job, Report
from healthcheck.reading import Reading
from healthcheck.report.clean import clean
from healthcheck.runner import Request, run, state_folder
from prolog.policy import Decision, Do, decide
from slurm_integration.job_env import read_job

LAST_REPORT = "prolog.json"
"""In the state folder: the report of the last prolog, for people and for the task prolog."""
MARGIN_S = 0.2


def run_prolog(
    host: Host, environment: Mapping[str, str], early: Iterable[Reading], started: float
) -> int:
    """Look at the node for the job in `environment`; returns the exit code for slurmd."""
    path = environment.get("FLIGHTCHECK_CONFIG", CONFIG_PATH)
    # Names and limits of checks are verified once the checks are loaded, while probes read.
    config, notes, refused = load_config(path, verify=False)
    job = read_job(environment)
    request = Request(
        host=host,
        stage="prolog",
        config=config,
        notes=(*notes, *(job.odd if job else ())),
        job=job,
        refused=refused,
        unverified=path,
    )
    result = run(request, early, started)
    report = result.report
    decision = decide(report, config, job.restart_count if job else 0)
    _tell(report, decision, job)
    code = _act(report, decision, config, job, started + config.deadline_s - MARGIN_S)
    _keep(state_folder(host, config), report)
    return code


def _act(
    report: Report, decision: Decision, config: Config, job: Job | None, deadline: float
) -> int:
    """Carry the decision out."""
    if decision.do in (Do.PASS, Do.ALERT):
        return 0
    from prolog.act import drain, requeue  # costs a failing node alone

    if decision.do is Do.DRAIN:
        return drain(report, decision, config, job, deadline)
    return requeue(config, job, deadline)


def _tell(report: Report, decision: Decision, job: Job | None) -> None:
    """One line for slurmd's log, and one more for everything somebody should look at."""
    flight = f" [job {job.job_id}]" if job else ""
    say(
        f"{report.verdict.value} {report.node} {report.profile} "
        f"{len(report.outcomes)} checks in {report.duration_s:.2f} s{flight}"
    )
    for note in report.notes:
        say(f"note: {note}")
    for check, finding in report.findings():
        say(f"{finding.severity.value} {check} {finding.subject}: {finding.message}")
    for outcome in report.outcomes:
        if outcome.outcome in (Ending.UNMEASURED, Ending.ERROR, Ending.TIMED_OUT):
            say(f"{outcome.outcome.value} {outcome.check}: {outcome.reason}")
    if decision.do is not Do.PASS:
        say(decision.why)


def say(text: str) -> None:
    """A line on standard output, which slurmd puts into its log."""
    sys.stdout.write(f"flightcheck: {clean(text)}\n")


def _keep(folder: str, report: Report) -> None:
    """Leave the report where people find it. Best effort: a full disk must not fail a job."""
    from healthcheck.report.json import to_json

    path = f"{folder}/{LAST_REPORT}"
    draft = f"{path}.{os.getpid()}"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, to_json(report).encode() + b"\n")
        finally:
            os.close(fd)
        os.replace(draft, path)
    except OSError:
        try:
            os.unlink(draft)
        except OSError:
            pass
