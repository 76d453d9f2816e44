"""Is the test wanted before this job, and if so which? Pure; nothing of torch is touched here."""

from typing import NamedTuple

from healthcheck.allreduce.history import History
from healthcheck.allreduce.model import GpuPlace, Plan
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.allreduce.shapes import SHAPES, make_plan
from healthcheck.model import Job, Snapshot

HEADROOM = 1.25
"""Of the time that earlier runs took: one that does not fit is not begun."""
CPU_RANKS = 4


class NotWanted(NamedTuple):
    """Why the test is not run."""

    reason: str


def places(node: Snapshot, *, owned: bool = False) -> tuple[GpuPlace, ...]:
    """The GPUs of this node (or those of the job), in the order of their PCI addresses."""
    gpus = node.owned_gpus() if owned else node.gpus or ()
    good = [gpu for gpu in gpus if gpu.handle_error is None and gpu.bus_id]
    return tuple(
        GpuPlace(gpu.index, gpu.uuid, gpu.bus_id, gpu.name, gpu.memory_total_bytes)
        for gpu in sorted(good, key=lambda gpu: gpu.bus_id)
    )


def has_gpus(node: Snapshot) -> bool:
    """Whether anything says that this node has GPUs, though CUDA or NVML may not show them."""
    return bool(node.gpus) or any(
        device.kind == "gpu" and device.vendor == "0x10de" and not device.virtual
        for device in node.pci or ()
    )


def wanted(
    job: Job | None,
    settings: AllreduceSettings,
    node: Snapshot,
    history: History,
    *,
    profile: str,
    left_s: float,
) -> NotWanted | Plan:
    """The plan for this job's prolog, or why there is none.

    It must be switched on for the job's partition, own every GPU of the node, not have been
    passed within `max_age_s`, and fit into `left_s`, the seconds that the stage has left.
    """
    mode = settings.mode_for(job.partition if job else None)
    if mode == "off":
        return NotWanted("switched off for this partition ([allreduce] mode)")
    backend, gpus = "nccl", places(node)
    if not has_gpus(node):
        if profile != "cpu-only":
            return NotWanted(f"profile {profile} expects GPUs and none is seen; see gpu-count")
        backend = "gloo"
    elif refusal := _not_all(job, node, gpus):
        return NotWanted(refusal)
    ranks = len(gpus) if backend == "nccl" else CPU_RANKS
    last = history.last_pass(backend, ranks)
    if last is not None and 0 <= node.taken_at - last < settings.max_age_s:
        hours = (node.taken_at - last) / 3600
        return NotWanted(
            f"passed {hours:.1f} h ago, and again only after {settings.max_age_s / 3600:g} h"
        )
    known = history.duration(backend, ranks, mode)
    needs = known * HEADROOM if known is not None else SHAPES[backend, mode].expected_s
    room = min(left_s, settings.timeout_s)
    if needs > room:
        return NotWanted(
            f"it needs about {needs:.0f} s and {max(room, 0):.0f} s are left; raise deadline_s or "
            "[allreduce] timeout_s"
        )
    timeout = settings.collective_timeout_s
    return make_plan(backend, mode, ranks, gpus=gpus, timeout_s=timeout, node=node.node)


def _not_all(job: Job | None, node: Snapshot, gpus: tuple[GpuPlace, ...]) -> str | None:
    """Why the test must not load this node's GPUs, or None."""
    if any(gpu.mig_enabled for gpu in node.gpus or ()):
        return "MIG is on: NCCL does not join MIG instances"
    if not gpus:
        return "NVML shows none of the GPUs; see gpu-visibility"
    if len(gpus) < len(node.gpus or ()):
        return "not every GPU answers NVML; see gpu-visibility"
    owned = {gpu.bus_id for gpu in node.owned_gpus()}
    missing = [gpu.bus_id for gpu in gpus if gpu.bus_id not in owned]
    if job is None:
        return "there is no job whose GPUs these are"
    if missing:
        return f"the job does not own all GPUs ({len(gpus) - len(missing)} of {len(gpus)})"
    return None
