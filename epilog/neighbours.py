"""What the job's other nodes found out about themselves, as Slurm tells it.

Every node of a job runs its own epilog and drains itself on facts of its own, with the job named
in the reason. So the node that reads the log asks Slurm for those reasons: no shared folder, and
nothing that a user could have written. Whatever the log says, since a GPU that is lost on another
node looks like the program's own error here.
"""

import time

from epilog.model import Evidence
from epilog.postflight import fact_of_drain
from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.reason import take_apart
from slurm_integration.scontrol import Scontrol

PAUSE_S = 0.5


def drained_for(
    slurm: Scontrol, nodelist: str, me: str, job_id: int, until: float
) -> tuple[list[Evidence], str | None]:
    """Facts of the other nodes of `nodelist`, and a note where they could not be asked for.

    Waits until one is there, or every other node is through with its epilog, or `until`
    (monotonic seconds). A node is COMPLETING for as long as an epilog runs there.
    """
    while True:
        answer = slurm.show_nodes(nodelist, deadline=until + PAUSE_S)
        if not answer.ok:
            return [], f"the job's other nodes could not be asked for: {answer.trouble()}"
        others = [node for node in parse_nodes(answer.stdout) if node.name != me]
        told = [_fact(node) for node in others if _for_this_job(node, job_id)]
        facts = [fact for fact in told if fact is not None]
        at_work = any("COMPLETING" in node.flags for node in others)
        if facts or not at_work or time.monotonic() + PAUSE_S > until:
            return facts, None
        time.sleep(PAUSE_S)


def _fact(node: NodeState) -> Evidence | None:
    reason = node.reason or ""
    return fact_of_drain(node.name, take_apart(reason).check, reason)


def _for_this_job(node: NodeState, job_id: int) -> bool:
    return node.ours and take_apart(node.reason or "").job_id == job_id
