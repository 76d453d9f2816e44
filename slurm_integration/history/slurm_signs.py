"""What Slurm itself says about nodes: whom users avoid, and who is out of service. Pure parsing.

Read once a collect on the admin host, never on a node.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from healthcheck.node_event import NodeEvent, cut, steady_id
from slurm_integration.node_state import NodeState
from slurm_integration.sweep.nodeset import named, upper_bound

SQUEUE = ("-a", "-h", "-o", "%A|%U|%x")
"""Job, uid and the nodes that it excludes, of all pending and running jobs."""
MAX_EXCLUDED = 32
"""A job that excludes more nodes than this wants a part of the cluster, and accuses none."""
BY_OTHERS = "by-others"


class Avoided(NamedTuple):
    """One job's word against one node."""

    job_id: int
    uid: int
    node: str


def parse_excluded(text: str) -> Iterator[Avoided]:
    """Lines of `squeue` with SQUEUE's format; a line that is none of them is skipped."""
    for line in text.splitlines():
        job, _, rest = line.partition("|")
        uid, _, nodes = rest.partition("|")
        job, uid, nodes = job.strip(), uid.strip(), nodes.strip()
        if not (job.isdecimal() and uid.isdecimal()) or nodes in ("", "(null)"):
            continue
        if len(job) > 18 or len(uid) > 18 or upper_bound(nodes) > MAX_EXCLUDED:
            continue
        try:
            names = list(named(nodes))
        except ValueError:
            continue
        for name in names:
            yield Avoided(int(job), int(uid), str(name)[:255])


def excluded_events(avoided: Iterable[Avoided], now: float) -> list[NodeEvent]:
    """One event a job and node, the same at every collect."""
    return [
        NodeEvent(
            steady_id("excluded", *one), now, one.node, "excluded", job_id=one.job_id, uid=one.uid
        )
        for one in avoided
    ]


def held_events(nodes: Iterable[NodeState], now: float) -> Iterator[NodeEvent]:
    """Nodes out of service, each once per time that somebody said so.

    Those of our own drains are told by the nodes too; see `untold`.
    """
    for node in nodes:
        if not node.held or node.reason_time is None or node.reason is None:
            continue
        yield NodeEvent(
            steady_id("held", node.name, node.reason_time),
            min(float(node.reason_time), now),
            node.name,
            "drain",
            outcome="drained" if node.ours else BY_OTHERS,
            message=cut(node.reason),
            stage="slurm",
        )


def untold(held: Iterable[NodeEvent], told: Iterable[NodeEvent]) -> list[NodeEvent]:
    """Those of `held` that no drain event of the same node, within ten minutes, tells already."""
    times: dict[str, list[float]] = {}
    for event in told:
        times.setdefault(event.node, []).append(event.at)
    return [
        event
        for event in held
        if not any(abs(event.at - at) < 600 for at in times.get(event.node, ()))
    ]
