"""What a failing stage does to the node or the job. Imported only then."""

from healthcheck.config import Config
from healthcheck.model import Action, Job, Report
from slurm_integration import drain as draining
from slurm_integration.hook import say
from slurm_integration.policy import Decision
from slurm_integration.reason import drain_reason


def drain(
    report: Report, decision: Decision, config: Config, job: Job | None, deadline: float
) -> draining.Decision:
    """Drain this node within the site's budget, and say what came of it."""
    job_id = job.job_id if job else None
    reason = drain_reason(
        [(check, _with_subject(f.subject, f.message)) for check, f in decision.findings],
        job_id,
        replace=any(f.action is Action.REPLACE for _, f in decision.findings),
    )
    done = draining.drain_node(
        reason, config.drain, report.node, job_id, deadline, dry_run=config.dry_run
    )
    say(done.message)
    return done


def requeue(config: Config, job: Job | None, deadline: float) -> bool:
    """Send the job back to the queue, and say what came of it. Whether it was sent."""
    if job is None:
        say("no job to requeue: SLURM_JOB_ID is not set")
        return False
    if config.dry_run:
        say(f"dry run, nothing was done: would requeue job {job.job_id}")
        return False
    from slurm_integration.scontrol import Scontrol

    answer = Scontrol(config.drain.scontrol or "", config.drain.timeout_s).requeue(
        job.job_id, deadline=deadline
    )
    say(f"job {job.job_id} requeued" if answer.ok else f"job not requeued: {answer.trouble()}")
    return answer.ok


def _with_subject(subject: str, message: str) -> str:
    return f"{subject}: {message}" if subject and subject not in message else message
