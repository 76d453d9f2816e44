"""What an event says about the worth of its node, as one word. Pure.

`excluded:UID` · `xid` · `drain` · `link` · `job:single:CLASS` and `job:multi:CLASS` (a failed job
that this node began) · `check:NAME` (a check began to fail). The database keeps the word beside
the event, so that a million events are counted without being read.

The signals are those of "Revisiting Reliability in Large-Scale Machine Learning Research
Clusters" (Kokolis et al., HPCA 2025), section on lemon nodes: jobs that exclude the node, Xids,
times out of service, multi-node and single-node failures.
"""

from healthcheck.knowledge import xid
from healthcheck.node_event import NodeEvent

DRAINED = frozenset({"drained", "left-to-slurm", "failed-closed", "by-others"})
"""Outcomes of a drain after which the node is out of service, whoever did it."""
NODE_FAULTS = ("hardware/", "network/", "infrastructure/", "scheduler/node-failure")
"""Classes of failed jobs that are charged to the node that began them."""
_OF_PROGRAMS = frozenset({"none", "application", "engine", "pcie-repeat", "follow"})
"""Rules for Xids that belong to the program that ran, or follow another Xid."""


def signal_of(event: NodeEvent) -> str | None:
    """The word, or None where the event tells nothing about the node."""
    match event.kind:
        case "xid":
            return None if _of_program(event.code) else "xid"
        case "drain":
            return "drain" if event.outcome in DRAINED else None
        case "link-downed":
            return "link"
        case "excluded":
            return f"excluded:{event.uid}"
        case "finding":
            return f"check:{event.check}" if event.severity == "fail" else None
        case "job-failure":
            if not event.root or not (event.klass or "").startswith(NODE_FAULTS):
                return None
            return f"job:{'multi' if (event.nodes or 1) > 1 else 'single'}:{event.klass}"
    return None


def _of_program(code: int | None) -> bool:
    return code is not None and xid(code).rule in _OF_PROGRAMS
