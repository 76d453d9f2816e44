"""One prolog: look, judge, act. Nothing here is slow or talks to Slurm unless the node failed."""

from collections.abc import Iterable, Mapping

from healthcheck import guard
from healthcheck.config import CONFIG_PATH, Config, load_config
from healthcheck.events import Deed
from healthcheck.host import Host, root_of
from healthcheck.model import Report
from healthcheck.reading import Reading
from healthcheck.runner import Request, Result, keep_baseline, run, state_folder
from prolog.preflight import settle, wish
from slurm_integration.hook import FAIL_JOB, leave_file, remember, say, tell
from slurm_integration.job_env import read_job
from slurm_integration.policy import Decision, Do, decide
from slurm_integration.verdict_file import leave_verdict

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
    guard.promise(started + config.deadline_s)
    job = read_job(environment)
    asked = wish(job)
    if asked is not None and job is not None:
        settled, told = settle(asked, job, config)
        say(f"{told} [job {job.job_id}]")
        if settled is None:
            return 0
        config = settled
    request = Request(
        host=host,
        stage="prolog",
        config=config,
        notes=(*notes, *(job.odd if job else ())),
        job=job,
        refused=refused,
        remember=False,  # only after it has acted
        unverified=path,
    )
    result = run(request, early, started)
    report = result.report
    decision = decide(report, config, job.restart_count if job else 0)
    tell(report, decision, job)
    code, deed = _act(result, decision, config, started + config.deadline_s - MARGIN_S)
    guard.decided(code)
    note = keep_baseline(request, result)
    if note:
        say(f"note: {note}")
    folder = state_folder(host, config)
    _keep(folder, report)
    leave_verdict(report, job, result.snapshot, config.task_prolog, root_of(host))
    remember(folder, result, decision, deed, config)
    return code


def _act(
    result: Result, decision: Decision, config: Config, deadline: float
) -> tuple[int, Deed | None]:
    """Carry the decision out: the exit code, and what was done."""
    report, node, _ = result
    job = node.job
    if decision.do is Do.PASS:
        return 0, None
    if decision.do is Do.ALERT:
        return 0, Deed("alert", reason=decision.why)
    from slurm_integration.act import drain, requeue  # costs a failing node alone
    from slurm_integration.shared_nodes import spares

    if decision.do is Do.DRAIN:
        done = drain(report, decision, config, job, deadline)
        deed = Deed("drain", done.outcome.value, done.reason)
        if done.fail_job and done.held and spares(decision.findings, node):
            say("none of this is about the job's own GPUs: it runs, and the node takes no others")
            return 0, deed
        return FAIL_JOB if done.fail_job else 0, deed
    # Always 0: a Prolog that fails would drain the node.
    sent = requeue(config, job, deadline)
    return 0, Deed("requeue", "requeued" if sent else "not-requeued", decision.why)


def _keep(folder: str, report: Report) -> None:
    """Leave the report where people find it."""
    from healthcheck.report.json import to_json

    leave_file(f"{folder}/{LAST_REPORT}", to_json(report).encode() + b"\n")
