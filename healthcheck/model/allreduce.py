"""What one all_reduce test saw: how it ended, which bits were wrong, how fast it was."""

from enum import StrEnum

import msgspec


class AllreduceEnd(StrEnum):
    """How the test ended. Only corrupt, hung and died are evidence by themselves.

    `could-not-start` names its `cause`; `unfinished`: time was up while it still made progress.
    """

    OK = "ok"
    CORRUPT = "corrupt"
    HUNG = "hung"
    DIED = "died"
    COULD_NOT_START = "could-not-start"
    UNFINISHED = "unfinished"


class AllreduceRank(msgspec.Struct, frozen=True):
    """One rank: where it ran and where it was when the test ended.

    `entered` and `left` count its collectives, `call` is the last one ("sum int32 262144").
    `state` is the kernel's letter (R, S, D, T, Z; "gone" after its end), `silent_s` how long it
    had given no sign of life. `exit_code` is negative for a signal.
    """

    rank: int
    node: str | None = None
    gpu_index: int | None = None
    uuid: str | None = None
    bus_id: str | None = None
    gpu: str | None = None
    pid: int | None = None
    phase: str = ""
    call: str = ""
    entered: int = 0
    left: int = 0
    state: str | None = None
    silent_s: float | None = None
    exit_code: int | None = None
    error: str | None = None


class WrongBits(msgspec.Struct, frozen=True):
    """A comparison that failed on one rank.

    `where`: contribution (its own data before they were sent), result, inverted (a further round
    to find the sender: rank `inverted`, or -1 for nobody, sent inverted bits), matmul, repeat (the
    same sum twice differed), digest (differs from the other ranks). `first_index` counts
    elements; `xor` is got XOR expected, `bits` wide.
    """

    rank: int
    where: str
    op: str = ""
    dtype: str = ""
    case: str = ""
    count: int = 0
    not_finite: int = 0
    first_index: int | None = None
    got: int | None = None
    expected: int | None = None
    xor: int | None = None
    bits: int = 32
    inverted: int | None = None
    detail: str = ""


class Suspect(msgspec.Struct, frozen=True):
    """A rank that the evidence points at, and what that evidence is."""

    rank: int
    why: str


class BusBandwidth(msgspec.Struct, frozen=True):
    """all_reduce of one message size. GB/s with GB = 1e9, as nccl-tests defines busbw.

    Times are those of the slowest rank in each iteration. `late_s`: by how much `slowest_rank`
    typically comes later than the others (it waits least); None where nobody stands out.
    `usual_gb_s`: the median of this node's earlier runs.
    """

    bytes: int
    dtype: str
    iterations: int
    median_s: float
    fastest_s: float
    busbw_gb_s: float
    fastest_busbw_gb_s: float
    mean_busbw_gb_s: float
    slowest_rank: int | None = None
    late_s: float | None = None
    usual_gb_s: float | None = None
    usual_runs: int = 0
    rank_s: dict[int, float] = {}
    """Median seconds inside the collective of each rank of this node: who waits least is late."""


class RankCompute(msgspec.Struct, frozen=True):
    """Mean seconds of one matrix product of `size` × `size` on one rank."""

    rank: int
    dtype: str
    size: int
    seconds: float


class LoadSample(msgspec.Struct, frozen=True):
    """One GPU as NVML saw it while the test loaded it."""

    bus_id: str
    at_s: float
    sm_clock_mhz: int | None = None
    clock_event_reasons: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None


class PathRun(msgspec.Struct, frozen=True):
    """The test on one path between the GPUs (nvls, ring, p2p, shm, nic).

    `confirmed`: NCCL's own log says that this path was taken; `evidence` quotes it.
    """

    path: str
    confirmed: bool
    evidence: str
    end: AllreduceEnd
    reason: str | None = None
    bandwidth: tuple[BusBandwidth, ...] = ()


class AllreduceResult(msgspec.Struct, frozen=True):
    """One run of the test on one node, or this node's part of a run over several.

    `ranks` is the size of the whole group, `members` the ranks of this node. `seed` repeats the
    same data. `cause` of a start that failed: no-torch, no-cuda, no-nccl, interpreter,
    rendezvous, absent, connect, no-ranks, untrusted.
    """

    end: AllreduceEnd
    backend: str
    depth: str
    ranks: int
    seed: int = 0
    reason: str | None = None
    cause: str | None = None
    phase: str | None = None
    started_at: float = 0.0
    duration_s: float = 0.0
    torch: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    members: tuple[AllreduceRank, ...] = ()
    nodes: tuple[str, ...] = ()
    """Node of every rank of the group, where the ranks found each other."""
    absent: tuple[int, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    wrong: tuple[WrongBits, ...] = ()
    cases: tuple[str, ...] = ()
    """Verified all_reduces that every member finished."""
    skipped: tuple[str, ...] = ()
    """Parts that do not apply, each with its reason."""
    bandwidth: tuple[BusBandwidth, ...] = ()
    compute: tuple[RankCompute, ...] = ()
    samples: tuple[LoadSample, ...] = ()
    paths: tuple[PathRun, ...] = ()
    log: tuple[str, ...] = ()
    """The child's last warnings and errors."""

    def member(self, rank: int) -> AllreduceRank:
        """This rank of this node; a bare one where it belongs to another node."""
        for member in self.members:
            if member.rank == rank:
                return member
        node = self.nodes[rank] if rank < len(self.nodes) else None
        return AllreduceRank(rank, node=node)
