"""Several jobs on one node: whose GPU is it that failed? Pure; imported for failing nodes alone."""

from collections.abc import Iterable

from healthcheck.model import Finding, Snapshot

WHOLE_NODE = frozenset({"driver-responsive"})
"""Checks whose findings name a GPU and concern every GPU of the node: a driver that hangs."""


def spares(findings: Iterable[tuple[str, Finding]], node: Snapshot) -> bool:
    """Whether none of these findings is about the job's own GPUs or about the node as a whole.

    Only where it is known which GPUs the job owns and all of them answer: SLURM_JOB_GPUS is there
    where gres.conf names device files, and MIG instances name no GPU that could be looked up.
    """
    job = node.job
    if job is None or not job.gpu_minors or job.gpu_uuids:
        return False
    own = {gpu.bus_id for gpu in node.owned_gpus()}
    if len(own) != len(job.gpu_minors):
        return False
    gpus = {gpu.bus_id for gpu in node.gpus or ()}
    gpus |= {device.bus_id for device in node.pci or () if device.kind == "gpu"}
    return all(
        check not in WHOLE_NODE and finding.subject in gpus and finding.subject not in own
        for check, finding in findings
    )
