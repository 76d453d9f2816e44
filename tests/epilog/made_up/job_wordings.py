"""What libraries write when a job fails, by release, and how a made-up case is told."""

import random
from collections.abc import Callable
from typing import NamedTuple

from epilog.model import Drain


class Job(NamedTuple):
    """One failed job: its log, what else is known, and what is right about it."""

    name: str
    log: str
    klass: str
    ranks: tuple[int, ...] | None = None
    nodes: tuple[str, ...] | None = None
    drain: Drain = Drain.NO
    given: tuple[str, ...] = ()
    tasks: int | None = None
    exit_code: tuple[int, int] | None = None
    kernel: tuple[tuple[str, str], ...] = ()
    most: float = 1.0
    least: float = 0.0


def caught(rank: int, seq: int, op: str, numel: int, second: float, group: str) -> str:
    clock = f"1201 03:14:{second:012.9f}"
    return (
        f"[rank{rank}]:[E{clock} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, "
        f"NumelOut={numel}, Timeout(ms)=600000) ran for 600{rank:03d} milliseconds before timing "
        "out."
    )


def status_23(rank: int, seq: int, enqueued: int, completed: int, second: float, group: str) -> str:
    return (
        f"[rank{rank}]:[E1201 03:14:{second:012.9f} ProcessGroupNCCL.cpp:1709] "
        f"[PG {group.partition('(')[0]} ({group.partition('(')[2]} Rank {rank}] Timeout at NCCL "
        f"work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
    )


def status_25(rank: int, seq: int, enqueued: int, completed: int, second: float, group: str) -> str:
    return (
        f"[rank{rank}]:[E1201 03:14:{second:012.9f} ProcessGroupNCCL.cpp:1785] "
        f"[PG ID 0 PG GUID {group} Rank {rank}] Exception (either an error or timeout) detected by "
        f"watchdog at work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: "
        f"{completed}."
    )


def status_27(rank: int, seq: int, enqueued: int, completed: int, second: float, group: str) -> str:
    return (
        f"[rank{rank}]:[E1201 03:14:{second:012.9f} ProcessGroupNCCL.cpp:2241] "
        f"[PG ID 0 PG GUID {group} Rank {rank}]  failure detected by watchdog at work sequence id: "
        f"{seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}"
    )


STATUS: dict[str, Callable[..., str]] = {
    "torch-2.4": status_23,
    "torch-2.5": status_25,
    "torch-2.7": status_27,
}


def dumped(rank: int, by: int, enqueued: int, completed: int, second: float) -> str:
    return (
        f"[rank{rank}]:[E1201 03:14:{second:012.9f} ProcessGroupNCCL.cpp:1858] "
        f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective "
        f"timeout from  rank {by} and we will try our best to dump the debug info. Last enqueued "
        f"NCCL work: {enqueued}, last completed NCCL work: {completed}.This is most likely caused "
        "by incorrect usages of collectives, e.g., wrong sizes used across ranks"
    )


def torchrun_table(rank: int, host: str, code: int, local: int, others: str = "") -> str:
    cause = f"Signal {-code} received by PID 4711" if code < 0 else "To enable traceback see"
    return f"""torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
{others or "  <NO_OTHER_FAILURES>"}
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_03:15:11
  host      : {host}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: 4711)
  error_file: <N/A>
  traceback : {cause}
============================================================"""


def wait(
    version: str,
    world: int,
    late: tuple[int, ...] = (),
    silent: tuple[int, ...] = (),
    seq: int = 900,
    group: str = "0(default_pg)",
    op: Callable[[int], str] = lambda rank: "ALLREDUCE",
    numel: Callable[[int], int] = lambda rank: 4096,
    members: tuple[int, ...] | None = None,
) -> list[str]:
    """Time-outs of all ranks but the late ones (who dump) and the silent ones (who say nothing)."""
    lines = []
    status = STATUS[version]
    for rank in members or range(world):
        if rank in silent:
            continue
        second = 10 + rank / 1000
        if rank in late:
            lines.append(dumped(rank, 0 if 0 not in late else 1, seq - 1, seq - 1, second + 0.5))
            continue
        lines.append(caught(rank, seq, op(rank), numel(rank), second, group))
        lines.append(status(rank, seq, seq + 2, seq - 1, second + 0.0005, group))
    return lines


def shuffled(lines: list[str], seed: int) -> str:
    """In the order in which a shared stdout gets them: none in particular."""
    random.Random(seed).shuffle(lines)
    return "\n".join(lines) + "\n"


def traceback(prefix: str, error: str) -> str:
    return "\n".join(
        f"{prefix}{line}"
        for line in (
            "Traceback (most recent call last):",
            '  File "/project/train.py", line 88, in <module>',
            "    main()",
            '  File "/project/train.py", line 61, in main',
            "    batch = next(batches)",
            error,
        )
    )


GLOO_CLOSED = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[127.0.0.1]:4711"
)


ERRORS = {
    "user/python-exception": "ValueError: bad sample in shard 17",
    "user/cuda-oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU "
    "5 has a total capacity of 79.11 GiB of which 1.00 GiB is free.",
    "user/device-assert": "RuntimeError: CUDA error: device-side assert triggered",
    "user/illegal-access": "RuntimeError: CUDA error: an illegal memory access was encountered",
    "infrastructure/fs-full": "OSError: [Errno 28] No space left on device: '/data/ckpt/step9.pt'",
    "infrastructure/fs-stale": "OSError: [Errno 116] Stale file handle: '/project/data/a.bin'",
    "hardware/gpu-ecc": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
}
