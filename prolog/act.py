"""What a failing prolog does to the node or the job. Imported only then."""

from healthcheck.config import Config
from healthcheck.model import Action, Job, Report
from prolog.policy import Decision
from slurm_integration.drain import drain_node
from slurm_integration.reason import drain_reason


def drain(
    report: Report, decision: Decision, config: Config, job: Job | None, deadline: float
) -> int:
    """Drain this node within the site's budget; returns the exit code for slurmd."""
    from prolog.stage import say

    reason = drain_reason(
        [(check, _with_subject(f.subject, f.message)) for check, f in decision.findings],
        job.job_id if job else None,
        replace=any(f.action is Action.REPLACE for _, f in decision.findings),
    )
    done = drain_node(
        reason,
        config.drain,
        report.node,
        job.job_id if job else None,
        deadline,
        dry_run=config.dry_run,
    )
    say(done.message)
    return 1 if done.fail_job else 0


def requeue(config: Config, job: Job | None, deadline: float) -> int:
    """Send the job elsewhere without draining the node. Always 0: a failed Prolog drains."""
    from prolog.stage import say

    if job is None:
        say("no job to requeue: SLURM_JOB_ID is not set")
        return 0
    if config.dry_run:
        say(f"dry run, nothing was done: would requeue job {job.job_id}")
        return 0
    from slurm_integration.scontrol import Scontrol

    answer = Scontrol(config.drain.scontrol or "", config.drain.timeout_s).requeue(
        job.job_id, deadline=deadline
    )
    say(f"job {job.job_id} requeued" if answer.ok else f"{answer.trouble()}; the job runs")
    return 0


def _with_subject(subject: str, message: str) -> str:
    return f"{subject}: {message}" if subject and subject not in message else message
