"""Carrying out what was decided about a failed job: nodes, job, memory of suspicions."""

import time

import msgspec

from epilog.decide import Decision, Policy, RequeuePolicy, Suspicion, decide
from epilog.decide.store import MOST, load, update
from epilog.decide.suspicions import added
from epilog.model import Attribution, JobFacts
from epilog.settings import EpilogSettings
from healthcheck.config import Config
from slurm_integration.drain import drain_node
from slurm_integration.hook import say
from slurm_integration.reason import drain_reason
from slurm_integration.scontrol import Scontrol

MAX_COMMENT = 400


class Done(msgspec.Struct, frozen=True):
    """What was decided, and what came of it in words."""

    decision: Decision
    requeued: bool = False
    said: tuple[str, ...] = ()


def carry_out(
    answer: Attribution,
    facts: JobFacts,
    config: Config,
    settings: EpilogSettings,
    folder: str,
    deadline: float,
) -> Done:
    """Decide and act within the site's policy and budget, until `deadline` (monotonic)."""
    said: list[str] = []
    now = time.time()
    remembered, note = load(folder)
    if note:
        said.append(note)
    decision = decide(answer, facts, remembered, policy_of(settings), now)
    if decision.suspicions:
        said += _remember(folder, decision.suspicions)
    if decision.alert:
        said.append(f"ALERT: {decision.alert}")
    for node in decision.diagnose:
        said.append(_diagnose(node, answer, facts, config, deadline))
    slurm = Scontrol(config.drain.scontrol or "", config.drain.timeout_s)
    requeued = decision.requeue and _requeue(slurm, facts, config, deadline, said)
    if settings.admin_comment:
        said += _comment(slurm, answer, facts, deadline)
    for line in said:
        say(line)
    return Done(decision, requeued, tuple(said))


def policy_of(settings: EpilogSettings) -> Policy:
    """The settings as the decision wants them."""
    wish = settings.requeue
    return Policy(
        confirm_drains=settings.confirm_drains,
        window_s=settings.suspicion_window_s,
        requeue=RequeuePolicy(enabled=wish.enabled, most=wish.most, mode=wish.mode),
    )


def _remember(folder: str, fresh: tuple[Suspicion, ...]) -> list[str]:
    _, note = update(folder, lambda remembered: added(remembered, fresh, MOST))
    told = [f"suspicion of {s.node} remembered: {s.klass}" for s in fresh]
    return [note] if note else told


def _diagnose(
    node: str, answer: Attribution, facts: JobFacts, config: Config, deadline: float
) -> str:
    """Drain a node that two unrelated jobs accuse, within the budget, for somebody to look at."""
    reason = drain_reason(
        [("suspected", f"two unrelated jobs failed here ({answer.klass}); run a full check")],
        facts.job_id,
        verdict="degraded",
    )
    return drain_node(
        reason, config.drain, node, facts.job_id, deadline, dry_run=config.dry_run
    ).message


def _requeue(
    slurm: Scontrol, facts: JobFacts, config: Config, deadline: float, said: list[str]
) -> bool:
    assert facts.job_id is not None
    if config.dry_run:
        said.append(f"dry run, nothing was done: would requeue job {facts.job_id}")
        return False
    answer = slurm.requeue(facts.job_id, deadline=deadline)
    said.append(
        f"job {facts.job_id} requeued"
        if answer.ok
        else f"job {facts.job_id} not requeued: {answer.trouble()}"
    )
    return answer.ok


def _comment(slurm: Scontrol, answer: Attribution, facts: JobFacts, deadline: float) -> list[str]:
    """Put the cause where `sacct` and `scontrol show job` find it."""
    from healthcheck.report.clean import clean

    assert facts.job_id is not None
    text = clean(f"flightcheck: {answer.klass}: {answer.message}", MAX_COMMENT)
    done = slurm.update_job(facts.job_id, {"AdminComment": text}, deadline=deadline)
    return [] if done.ok else [f"AdminComment not set: {done.trouble()}"]
