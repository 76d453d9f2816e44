"""Memory of a GPU: how much there is, and who still holds some of it."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import supporting
from healthcheck.model import (
    Action,
    Finding,
    Gpu,
    GpuProcess,
    NotApplicable,
    Snapshot,
    Unmeasured,
    fail,
    info,
    warn,
)
from healthcheck.registry import check

_MIB, _GIB = 1 << 20, 1 << 30
_SERVERS = (
    "nvidia-cuda-mps",
    "nvidia-persiste",
    "nv-hostengine",
    "nv-fabricmanage",
    "dcgm-exporter",
)
"""Names (at most 15 characters, as the kernel keeps them) of services that hold a GPU for all."""


class MemoryLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory in GiB that a GPU of this type reports at least."""

    min_gib: Annotated[float, msgspec.Meta(gt=0)]


@check(
    "gpu-memory",
    needs=("gpus",),
    limits=MemoryLimits,
    source="nvmlDeviceGetMemoryInfo against the memory of the GPU's type",
)
def gpu_memory(node: Snapshot, limits: MemoryLimits) -> Iterator[Finding]:
    """Every GPU has the memory of its type.

    What it means: less memory is another product, a wrong mode, or memory taken out of use.

    What we do: fail below the profile's figure.

    What to do: compare with `nvidia-smi -q -d MEMORY`; correct the profile or replace the GPU.
    """
    for gpu in supporting(node, "memory_total_bytes"):
        if gpu.mig_enabled:
            continue
        gib = (gpu.memory_total_bytes or 0) / _GIB
        if gib < limits.min_gib:
            yield fail(
                gpu.bus_id,
                f"{gib:.1f} GiB of memory, expected at least {limits.min_gib:g} GiB",
                measured=round(gib, 2),
                expected=limits.min_gib,
                action=Action.DRAIN,
                limit="min_gib",
            )


class LeftoverLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory in MiB that an idle GPU may hold besides the driver's own reserve."""

    memory_mib: Annotated[int, msgspec.Meta(ge=0)] = 1024


@check(
    "gpu-leftovers",
    needs=("gpus",),
    stages=("prolog", "epilog"),
    limits=LeftoverLimits,
    source="a GPU that is given to a job is given whole",
)
def gpu_leftovers(node: Snapshot, limits: LeftoverLimits) -> Iterator[Finding]:
    """The GPUs given to the job are empty: nobody else's process, no memory left behind.

    What it means: a process that outlived its job holds memory and time that this job was
    promised; it runs out of memory or is slow. Other jobs' GPUs are never looked at here.

    What we do: fail for a process of another user and for memory that nobody holds any more;
    warn for memory that the user's own processes hold. Services that hold GPUs for all (MPS,
    DCGM) and root's processes are only told. Sites that share a GPU between jobs switch this
    check off.

    What to do: end the process that is named; where memory stays without a process, reset the GPU.
    """
    if node.job is None:
        raise NotApplicable("no job owns a GPU now")
    if node.job.gpu_minors is None and node.job.gpu_uuids is None:
        raise NotApplicable("the job was given no GPU")
    for gpu in node.owned_gpus():
        if gpu.handle_error is None:
            yield from _left(gpu, node.job.uid, limits)


def _left(gpu: Gpu, uid: int | None, limits: LeftoverLimits) -> Iterator[Finding]:
    if gpu.processes is None and gpu.memory_used_bytes is None:
        raise Unmeasured(f"{gpu.bus_id}: neither its memory nor its processes could be read")
    work = [p for p in gpu.processes or () if p.kind == "compute" and not _service(p)]
    foreign = [p for p in work if p.uid not in (None, 0, uid)] if uid is not None else []
    for process in foreign:
        yield fail(
            gpu.bus_id,
            f"process {process.pid} ({process.name or 'unknown'}) of uid {process.uid} still uses "
            f"the GPU given to uid {uid}{_holds(process)}",
            measured=process.pid,
            expected="no process of another user",
            action=Action.DRAIN,
        )
    for process in work:
        if process.uid == 0 and uid != 0:
            yield info(
                gpu.bus_id,
                f"process {process.pid} ({process.name or 'unknown'}) of root uses the GPU"
                f"{_holds(process)}",
            )
    used = (gpu.memory_used_bytes or 0) // _MIB
    if used > limits.memory_mib and not foreign:
        yield _memory(gpu, used, work, limits)


def _service(process: GpuProcess) -> bool:
    return bool(process.name) and str(process.name).startswith(_SERVERS)


def _holds(process: GpuProcess) -> str:
    return f" ({process.memory_bytes // _MIB} MiB)" if process.memory_bytes else ""


def _memory(gpu: Gpu, used: int, work: list[GpuProcess], limits: LeftoverLimits) -> Finding:
    if work:
        holders = ", ".join(f"{p.pid} ({p.name or 'unknown'})" for p in work[:4])
        who, action = f"held by process {holders}", Action.NONE
    else:
        who, action = "held by no process that can be seen", Action.RESET_GPU
    return (warn if work else fail)(
        gpu.bus_id,
        f"{used} MiB of GPU memory in use, expected at most {limits.memory_mib} MiB: {who}",
        measured=used,
        expected=limits.memory_mib,
        action=action,
        limit="memory_mib",
    )
