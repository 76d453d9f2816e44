"""May the job run again by itself? Only after proven hardware, and only so often."""

import msgspec

from epilog.classes import Fault, class_of
from epilog.model import Attribution, JobFacts

MODES = ("normal", "expedite")


class RequeuePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`enabled`: off by default, for not every program may run twice. `most`: restarts of one job.

    `mode` "expedite" leaves it to Slurm 25.11's `sbatch --requeue=expedite`: the epilog's exit
    code then says whether the hardware failed.
    """

    enabled: bool = False
    most: int = 2
    mode: str = "normal"


def may_requeue(
    attribution: Attribution, facts: JobFacts, proven: bool, policy: RequeuePolicy
) -> tuple[bool, str]:
    """Whether to requeue, and the reason in words. `proven`: a node's own fact shows the fault."""
    fault = class_of(attribution.klass).fault
    if fault is Fault.SCHEDULER:
        return False, f"no requeue: {attribution.klass} is how the job was meant to end"
    if fault is Fault.USER:
        return False, "no requeue: it would fail again in the same way"
    if not proven or attribution.category not in ("hardware", "network"):
        return False, "no requeue: a fault of hardware is not proven"
    if not policy.enabled:
        return False, "no requeue: the configuration does not ask for it"
    if policy.mode == "expedite":
        return False, "left to Slurm (--requeue=expedite): the epilog's exit code tells it"
    if facts.restart_count >= policy.most:
        return False, f"no requeue: already restarted {facts.restart_count} of {policy.most} times"
    return True, f"requeue {facts.restart_count + 1} of {policy.most}: the hardware failed"
