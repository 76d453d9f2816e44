"""What the job's other nodes found out about themselves, as Slurm tells it.

Every node of a job runs its own epilog and drains itself on facts of its own, with the job named
in the reason. So the node that reads the log asks Slurm for those reasons: no shared folder, and
nothing that a user could have written. Asked only where a node could be at fault.
"""

import time

from epilog.model import Evidence
from epilog.postflight import fact_of_drain
from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.reason import take_apart
from slurm_integration.scontrol import Scontrol

PAUSE_S = 1.0


def drained_for(
    slurm: Scontrol, nodelist: str, me: str, job_id: int, klass: str, until: float
) -> tuple[list[Evidence], str | None]:
    """Facts of other nodes in `nodelist`, waiting for the first until `until` (monotonic)."""
    while True:
        answer = slurm.show_nodes(nodelist, deadline=until + PAUSE_S)
        if not answer.ok:
            return [], f"the job's other nodes could not be asked for: {answer.trouble()}"
        facts = [
            fact_of_drain(node.name, take_apart(node.reason or "").check, node.reason or "", klass)
            for node in parse_nodes(answer.stdout)
            if node.name != me and _for_this_job(node, job_id)
        ]
        if facts or time.monotonic() + PAUSE_S > until:
            return facts, None
        time.sleep(PAUSE_S)


def _for_this_job(node: NodeState, job_id: int) -> bool:
    return node.ours and take_apart(node.reason or "").job_id == job_id
