"""What the two all_reduce checks share: which results can be judged, and how a rank is named."""

from healthcheck.model import NotApplicable, Snapshot, Unmeasured
from healthcheck.model.allreduce import AllreduceEnd, AllreduceRank, AllreduceResult

NODE = "node"
_HARDWARE = (
    "uncorrectable", "ecc error", "hardware error", "is lost", "fallen off", "nvlink error",
    "unspecified launch failure", "illegal instruction", "misaligned address", "invalid program",
)  # fmt: skip
"""Words of CUDA's own errors that a program that is known to be right cannot cause."""


def flown(node: Snapshot) -> AllreduceResult:
    """The result. Raises NotApplicable where the test was not to run, Unmeasured otherwise."""
    if node.allreduce is not None:
        return node.allreduce
    problem = node.problems.get("allreduce")
    if problem is None:
        raise NotApplicable("the all_reduce test was not asked for")
    if problem.kind == "skipped":
        raise NotApplicable(problem.reason)
    raise Unmeasured(f"the all_reduce test: {problem.reason}")


def from_hardware(*texts: str | None) -> bool:
    """Whether an error names the hardware, and not a program or an installation."""
    told = " ".join(text for text in texts if text).lower()
    return any(word in told for word in _HARDWARE)


def subject(result: AllreduceResult, rank: int) -> str:
    """What an operator puts a finger on: the GPU's PCI address, else the rank."""
    member = result.member(rank)
    several = len(set(result.nodes)) > 1
    return member.bus_id or (f"{member.node} rank {rank}" if several else f"rank {rank}")


def name(result: AllreduceResult, rank: int) -> str:
    """`rank 3 (GPU 3, GPU-1f…, 0000:5d:00.0)`."""
    member: AllreduceRank = result.member(rank)
    parts = [f"GPU {member.gpu_index}"] if member.gpu_index is not None else []
    parts += [part for part in (member.uuid, member.bus_id) if part]
    if member.node and len(set(result.nodes)) > 1:
        parts.append(f"on {member.node}")
    return f"rank {rank} ({', '.join(parts)})" if parts else f"rank {rank}"


def got_far(result: AllreduceResult) -> None:
    """Raises where the run ended before its bandwidth was measured."""
    if result.end in (AllreduceEnd.COULD_NOT_START, AllreduceEnd.UNFINISHED):
        raise Unmeasured(f"{result.end.value}: {result.reason}")
    if result.end is not AllreduceEnd.OK and not result.bandwidth:
        raise NotApplicable(f"the test ended before ({result.end.value}); see allreduce-integrity")
