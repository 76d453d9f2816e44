"""Which backend, how many ranks, and which GPUs: for somebody who calls the command by hand."""

from collections.abc import Mapping, Sequence

from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, GpuPlace
from healthcheck.allreduce.wanted import CPU_RANKS, has_gpus, places
from healthcheck.model import Snapshot


class CannotChoose(Exception):  # noqa: N818 - an answer, not an error
    """There is nothing sensible to run; `result` says so in the test's own form."""

    def __init__(self, backend: str, depth: str, cause: str, reason: str) -> None:
        super().__init__(reason)
        self.result = AllreduceResult(
            end=AllreduceEnd.COULD_NOT_START,
            backend=backend,
            depth=depth,
            ranks=0,
            cause=cause,
            reason=reason,
        )


def choose(
    node: Snapshot,
    profile: str,
    backend: str,
    nproc: int | None,
    depth: str,
    environment: Mapping[str, str],
) -> tuple[str, int, tuple[GpuPlace, ...]]:
    """(backend, ranks, their GPUs). Raises CannotChoose.

    `backend` auto is NCCL where anything says that there are GPUs, and gloo only where the
    profile is for nodes without any: a GPU node whose GPUs are gone must not pass on its CPUs.
    """
    if backend == "gloo" or (backend == "auto" and profile == "cpu-only" and not has_gpus(node)):
        return "gloo", nproc or CPU_RANKS, ()
    gpus = visible(places(node), environment)
    if not gpus:
        seen = "the PCI bus shows some" if has_gpus(node) else "none is on the PCI bus"
        reason = (
            f"NVML shows no GPU ({seen}) and profile {profile} is not for nodes without; "
            "--backend gloo tests the CPUs"
        )
        raise CannotChoose("nccl", depth, "no-cuda", reason)
    if nproc is not None and nproc > len(gpus):
        reason = f"--nproc {nproc}: there are {len(gpus)} GPUs, and NCCL takes one a rank"
        raise CannotChoose("nccl", depth, "too-many", reason)
    chosen = gpus[: nproc or len(gpus)]
    return "nccl", len(chosen), chosen


def visible(gpus: Sequence[GpuPlace], environment: Mapping[str, str]) -> tuple[GpuPlace, ...]:
    """Those of the GPUs that CUDA_VISIBLE_DEVICES names (a job's own), all where it is not set.

    Numbers count the GPUs in the order of their PCI addresses, which is how the test's child is
    told to count too.
    """
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(gpus)
    chosen: dict[str, GpuPlace] = {}
    for word in (part.strip() for part in listed.split(",")):
        if word.isascii() and word.isdigit() and int(word[:6]) < len(gpus):
            gpu = gpus[int(word)]
            chosen[gpu.bus_id] = gpu
        elif word.startswith("GPU-"):
            chosen |= {gpu.bus_id: gpu for gpu in gpus if (gpu.uuid or "").startswith(word)}
    return tuple(chosen.values())
