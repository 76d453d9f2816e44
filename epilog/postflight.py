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
    "sxid": "hardware/gpu-nvlink",
    "kernel-pcie": "hardware/gpu-pcie",
}
"""Check → class, where a failing finding of it can end a job. Not xid: its class is that of the
kernel's line, which is read itself."""
_XID = re.compile(r"\bXid (\d{1,4})\b")
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
        *_kernel(node, since, known_before),
        *(
            _finding(node, check, finding)
            for check, finding in findings
            if finding.severity is Severity.FAIL
            and check in CLASSES
            and (check, finding.subject) not in known_before
        ),
    ]


def fact_of_drain(node: str, check: str | None, reason: str) -> Evidence | None:
    """What another node says of itself: flightcheck drained it, naming this job.

    None for a check whose finding does not end a job (a warm GPU, a failed power supply).
    """
    found = _XID.search(reason) if check == "xid" else None
    klass = _class_of_xid(int(found[1]), reason, node) if found else CLASSES.get(check or "")
    if klass is None:
        return None
    gpu = _GPU.search(reason)
    return Evidence(
        file=f"{node}: drain reason",
        line=0,
        role=Role.ROOT,
        klass=klass,
        text=reason,
        signature="drained-for-this-job",
        host=node,
        fields={"check": check or ""} | ({"gpu": gpu.group()} if gpu else {}),
        fact=True,
    )


def _class_of_xid(code: int, reason: str, node: str) -> str:
    """The class that the node's own kernel line would have; it has failed a check already."""
    event = KernelEvent("xid", 0, 0.0, reason, code=code)
    told = [fact.klass for fact in facts_of_events([event], node, 0.0)]
    hardware = [klass for klass in told if not klass.startswith("user/")]
    return hardware[0] if hardware else "hardware/gpu-hang"


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


def _kernel(
    node: Snapshot, since: float | None, known_before: frozenset[tuple[str, str]]
) -> list[Evidence]:
    """The kernel log's lines since the job began, also those that a health check saw first."""
    begin = since - BEFORE_S if since is not None else None
    fresh = [e for e in node.new_events() if begin is None or e.at >= begin]
    kept = [
        e
        for e in (node.baseline.events if node.baseline else ())
        if e.boot_id == node.boot_id
        and (e.kind, e.subject) not in known_before
        and _of_the_job(e, node, since)
    ]
    booted = node.taken_at - (node.uptime_s or 0.0)
    events = [
        KernelEvent(e.kind, 0, e.at - booted, e.message, e.code, e.subject, count=e.count)
        for e in (*kept, *fresh)
        if e.message
    ]
    return facts_of_events(events, node.node, booted, KERNEL)


def _of_the_job(event: Event, node: Snapshot, since: float | None) -> bool:
    """Whether an event that an earlier look saw came while the job ran."""
    if since is not None:
        return event.at >= since
    return node.job is not None and event.job_id == node.job.job_id
