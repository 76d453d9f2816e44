"""What this node's own look says of a failure: findings and kernel events as facts of the node."""

import re
from collections.abc import Iterable

from epilog.kernel_log import facts_of_events
from epilog.model import Evidence, Role
from healthcheck.model import Finding, KernelEvent, Severity, Snapshot
from healthcheck.model.snapshot import Event

SOURCE = "post-flight"
KERNEL = "kernel log"
BEFORE_S = 60.0

CLASSES = {
    "driver-responsive": "infrastructure/driver",
    "gpu-count": "hardware/gpu-off-bus",
    "gpu-presence": "hardware/gpu-off-bus",
    "gpu-visibility": "hardware/gpu-off-bus",
    "pcie-responsive": "hardware/gpu-off-bus",
    "gpu-ecc": "hardware/gpu-ecc",
    "gpu-row-remap": "hardware/gpu-ecc",
    "gpu-retired-pages": "hardware/gpu-ecc",
    "gpu-recovery-action": "hardware/gpu-hang",
    "nvlink-links": "hardware/gpu-nvlink",
    "nvlink-errors": "hardware/gpu-nvlink",
    "nvlink-fabric": "hardware/gpu-nvlink",
    "nvlink-p2p": "hardware/gpu-nvlink",
    "nvlink-speed": "hardware/gpu-nvlink",
    "pcie-width": "hardware/gpu-pcie",
    "pcie-generation": "hardware/gpu-pcie",
    "pcie-aer": "hardware/gpu-pcie",
    "ib-devices": "hardware/nic",
    "nic-health": "hardware/nic",
    "ib-ports": "network/ib-link",
    "ib-flap": "network/ib-link",
    "machine-check": "hardware/host-memory",
    "memory-errors": "hardware/host-memory",
    "memory-size": "hardware/host-memory",
    "filesystem-space": "infrastructure/fs-full",
}
"""Check → class, where a failing finding of it can end a job. Checks of the kernel log are not
here: their lines are read themselves."""
KERNEL_CHECKS = frozenset({"xid", "sxid", "kernel-pcie"})
_GPU = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def node_evidence(
    node: Snapshot,
    findings: Iterable[tuple[str, Finding]],
    known_before: frozenset[tuple[str, str]],
    since: float | None,
) -> list[Evidence]:
    """Facts of this node from the job's window.

    `known_before`: (check, subject) that failed in the prolog already; they began before the job.
    """
    return [
        *_kernel(node, since),
        *(
            _finding(node, check, finding)
            for check, finding in findings
            if finding.severity is Severity.FAIL
            and check in CLASSES
            and (check, finding.subject) not in known_before
        ),
    ]


def fact_of_drain(node: str, check: str | None, reason: str, klass: str) -> Evidence:
    """What another node says of itself: flightcheck drained it, naming this job.

    Checks of the kernel log have no class of their own: the one the log suspects counts.
    """
    return Evidence(
        file=f"{node}: drain reason",
        line=0,
        role=Role.ROOT,
        klass=CLASSES.get(check or "", klass),
        text=reason,
        signature="drained-for-this-job",
        host=node,
        fields={"check": check or ""},
        fact=True,
    )


def _finding(node: Snapshot, check: str, finding: Finding) -> Evidence:
    gpu = _GPU.search(finding.subject) or _GPU.search(finding.message)
    return Evidence(
        file=SOURCE,
        line=0,
        role=Role.ROOT,
        klass=CLASSES[check],
        text=f"{check} {finding.subject}: {finding.message}",
        signature=f"check-{check}",
        host=node.node,
        fields={"gpu": gpu.group()} if gpu else {},
        fact=True,
    )


def _kernel(node: Snapshot, since: float | None) -> list[Evidence]:
    """The kernel log's lines since the job began, also those that a health check saw first."""
    kept = node.baseline.events if node.baseline else ()
    booted = node.taken_at - (node.uptime_s or 0.0)
    begin = since - BEFORE_S if since is not None else None
    events = [
        KernelEvent(e.kind, 0, e.at - booted, e.message, e.code, e.subject, count=e.count)
        for e in (*kept, *node.new_events())
        if e.message and e.boot_id == node.boot_id and _inside(e, begin, node)
    ]
    return facts_of_events(events, node.node, booted, KERNEL)


def _inside(event: Event, begin: float | None, node: Snapshot) -> bool:
    """Without a start of the job only what is new since the last look counts."""
    if begin is not None:
        return event.at >= begin
    return node.baseline is None or event.at >= node.baseline.taken_at
