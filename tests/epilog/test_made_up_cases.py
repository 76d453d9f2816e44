"""Failures composed from the libraries' own wordings, with varied versions, ranks and prefixes.

None of them stems from a file of the corpus: they hold what the rules promise of cases that
nobody has labelled yet.
"""

import random
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import NamedTuple

import pytest

from epilog.classify import Heard, classify, job_facts, node_facts
from epilog.model import Attribution, Drain
from epilog.scan import Settings, scan_files


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


def answer(job: Job) -> Attribution:
    facts = job_facts(job.exit_code, job.given, job.tasks)
    scanned = scan_files([("job.log", BytesIO(job.log.encode()))], Settings(nodes=job.given))
    heard = [
        fact
        for node, text in job.kernel
        for fact in node_facts(f"kernel@{node}", BytesIO(text.encode()), node, None)
    ]
    return classify(facts, scanned, Heard(tuple(heard)))


# --- wordings of the watchdog by torch release --------------------------------------------------


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


ABORTS = "\n".join(
    f"[rank{r}]:[E1201 03:15:10.{r:09d} ProcessGroupNCCL.cpp:758] [Rank {r}] To avoid data "
    "inconsistency, we are taking the entire process down."
    for r in (0, 3, 5)
)


def timeouts() -> Iterator[Job]:
    for seed, (version, world, late) in enumerate(
        (
            ("torch-2.4", 8, (3,)),
            ("torch-2.5", 16, (11,)),
            ("torch-2.7", 8, (0,)),
            ("torch-2.7", 32, (17, 18)),
            ("torch-2.5", 4, (2,)),
        )
    ):
        log = shuffled(wait(version, world, late), seed) + ABORTS
        log += "\n" + torchrun_table(1, "node02", -6, 1)
        yield Job(f"late {version} {late} of {world}", log, "user/desync", late)
    for seed, (version, world, gone) in enumerate(
        (("torch-2.4", 8, 5), ("torch-2.5", 16, 0), ("torch-2.7", 8, 7), ("torch-2.7", 64, 40))
    ):
        log = shuffled(wait(version, world, silent=(gone,)), seed)
        nodes = tuple(f"gpu{n:02d}" for n in range(1, world // 8 + 1)) if world > 8 else ("gpu01",)
        yield Job(
            f"silent {version} {gone} of {world}",
            log,
            "unknown/hang",
            (gone,),
            (nodes[gone // 8],),
            given=nodes,
            tasks=8,
            most=0.5,
        )
    log = shuffled(wait("torch-2.7", 8, op=lambda r: "ALLGATHER" if r == 6 else "ALLREDUCE"), 1)
    yield Job("another operation", log, "user/desync", (6,))
    log = shuffled(wait("torch-2.5", 16, numel=lambda r: 4095 if r == 9 else 4096), 2)
    yield Job("another size", log, "user/desync", (9,))
    log = shuffled(wait("torch-2.4", 2, numel=lambda r: 100 + r), 3)
    yield Job("a tie of two", log, "user/desync", (0, 1), most=0.7)
    log = shuffled(wait("torch-2.7", 8), 4)
    yield Job("all had joined", log, "unknown/nccl-timeout", (), most=0.5)
    old = "\n".join(
        f"[E ProcessGroupNCCL.cpp:828] [Rank {r}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum=77, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800{r:03d} "
        "milliseconds before timing out."
        for r in range(8)
        if r != 4
    )
    yield Job(
        "silent torch-1.13", old, "unknown/hang", (4,), ("n1",), given=("n1",), tasks=8, most=0.5
    )


def chains() -> Iterator[Job]:
    # Ranks 2 and 3 are late in the default group because they wait in their own group, where
    # rank 3 had not come: everything waits for rank 3.
    lines = wait("torch-2.7", 8, late=(2, 3))
    lines += wait("torch-2.7", 8, members=(2,), seq=51, group="5(tensor)")
    lines.append(
        "[rank3]:[E1201 03:14:11.000000000 ProcessGroupNCCL.cpp:1858] [PG ID 2 PG GUID 5(tensor) "
        "Rank 1] Received a dump signal due to a collective timeout from  rank 0 and we will try "
        "our best to dump the debug info. Last enqueued NCCL work: 50, last completed NCCL work: "
        "50."
    )
    yield Job("chain to another group", shuffled(lines, 7), "user/desync", (3,))


# --- a cause of its own -------------------------------------------------------------------------


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
PREFIXES = {
    "[rank5]: ": (5, ()),
    "5: ": (5, ()),
    "[default5]:[rank5]: ": (5, ()),
    "[1,5]<stderr>:": (5, ()),
    "[node07:5]:[rank5]: ": (5, ("node07",)),
}


def own_causes() -> Iterator[Job]:
    for number, (klass, error) in enumerate(ERRORS.items()):
        prefix, (rank, nodes) = list(PREFIXES.items())[number % len(PREFIXES)]
        other = prefix.replace("5", "{}")
        lines = [traceback(prefix, error)]
        lines += [traceback(other.format(r, r), GLOO_CLOSED) for r in (0, 1, 2, 3, 4, 6, 7)]
        drain = Drain.REVIEW if klass.startswith("hardware") else Drain.NO
        # With torchrun a label of srun is a node; as a rank it comes with srun's own last words.
        launcher = torchrun_table(0, "node07", 1, 0)
        if prefix == "5: ":
            launcher = "srun: error: node07: tasks 0-7: Exited with exit code 1\n"
        yield Job(
            f"{klass} behind {prefix.strip()}",
            shuffled(lines, number) + launcher,
            klass,
            (rank,),
            nodes or None,
            drain,
        )
    log = shuffled(
        [traceback("[rank3]: ", ERRORS["user/cuda-oom"]), *wait("torch-2.7", 8, silent=(3,))], 1
    )
    yield Job("out of memory, then time-outs", log, "user/cuda-oom", (3,))
    yield Job(
        "killed, by torchrun",
        torchrun_table(6, "gpu03", -9, 6),
        "unknown/sigkill",
        (6,),
        ("gpu03",),
        most=0.5,
    )
    yield Job(
        "segmentation fault, by torchrun",
        torchrun_table(9, "gpu02.example.org", -11, 1),
        "user/segfault",
        (9,),
        ("gpu02",),
        most=0.7,
    )
    yield Job(
        "bus error, by srun",
        "srun: error: gpu09: task 12: Bus error (core dumped)\n",
        "infrastructure/shm",
        (12,),
        ("gpu09",),
    )
    yield Job(
        "segmentation fault, by srun, with aborts behind it",
        "srun: error: gpu04: task 21: Segmentation fault (core dumped)\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=99.0\n"
        "slurmstepd: error: *** STEP 99.0 ON gpu01 CANCELLED AT 2026-12-01T03:15:00 ***\n"
        "srun: error: gpu01: tasks 0-7: Terminated\n",
        "user/segfault",
        (21,),
        ("gpu04",),
    )
    yield Job(
        "host memory, by Slurm",
        "slurmstepd: error: Detected 2 oom_kill events in StepId=812.0. Some of the step tasks "
        "have been OOM Killed.\nsrun: error: gpu11: task 88: Out Of Memory\n"
        "srun: error: gpu10: tasks 80-87: Terminated\n",
        "user/host-oom",
        (88,),
        ("gpu11",),
    )
    yield Job(
        "host memory, the killed rank named by torchrun",
        torchrun_table(2, "gpu05", -9, 2)
        + "\nslurmstepd: error: Detected 1 oom_kill event in StepId=812.batch. Some of the step "
        "tasks have been OOM Killed.\n",
        "user/host-oom",
        (2,),
        ("gpu05",),
    )
    yield Job(
        "command not found",
        "/var/spool/slurmd/job00812/slurm_script: line 7: torchrun: command not found\n",
        "infrastructure/environment",
    )
    yield Job(
        "mpirun, segmentation fault",
        "mpirun noticed that process rank 9 with PID 4711 on node node12 exited on signal 11 "
        "(Segmentation fault).\n",
        "user/segfault",
        (9,),
        ("node12",),
    )
    crashed = (
        "[rank4]: libibverbs: warning\n"
        "gpu02:4711:4800 [1] misc/socket.cc:532 NCCL WARN Net : Connection closed by remote peer "
        "gpu07<41912>\n"
        "[gpu05:36495] *** Process received signal ***\n[gpu05:36495] Signal: Segmentation fault "
        "(11)\n"
    )
    yield Job("a crash in the cleanup", crashed, "unknown/peer-died", most=0.5)


def named_culprits() -> Iterator[Job]:
    yield Job(
        "monitored barrier",
        "[rank0]: RuntimeError: [Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 30000 ms\n"
        "[rank1]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors "
        "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n",
        "user/desync",
        (2, 5),
    )
    yield Job(
        "monitored barrier missed by a rank that crashed",
        "[rank0]: RuntimeError: [Rank 0]: Rank 2 failed to pass monitoredBarrier in 30000 ms\n"
        "srun: error: gpu03: task 2: Segmentation fault (core dumped)\n",
        "user/segfault",
        (2,),
        ("gpu03",),
    )
    yield Job(
        "desync debugging",
        "[rank1]:[E1201 03:14:10.000000001 ProcessGroupNCCL.cpp:600] [Rank 1] \n\t - [1] Timeout "
        "at collective: ALLREDUCE, #183\n\t - To our best knowledge, the lagging/dead/mismatched "
        "ranks that caused the desync are:\n\t   - [7] finished collective #182, but didn't join "
        "collective #183 (count from 1)\n",
        "user/desync",
        (7,),
    )
    pair = (
        "[rank{a}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {a} is "
        "running collective: CollectiveFingerPrint(SequenceNumber=31, OpType=ALLREDUCE, "
        "TensorShape=[{x}], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float "
        "(default), device=cuda)), but Rank {b} is running collective: CollectiveFingerPrint("
        "SequenceNumber=31, OpType=ALLREDUCE, TensorShape=[{y}], TensorDtypes=Float)."
    )
    lines = [pair.format(a=a, b=4, x=20, y=10) for a in (0, 1, 2, 3, 5, 6, 7)]
    lines.append(pair.format(a=4, b=0, x=10, y=20))
    yield Job("fingerprints of eight", shuffled(lines, 3), "user/desync", (4,))
    yield Job(
        "horovod stall",
        "[2026-12-01 03:14:07.3: W horovod/common/stall_inspector.cc:105] One or more tensors "
        "were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
        "for remainder of ranks for more than 60 seconds.\nMissing ranks:\n"
        "3: [DistributedSGD_Allreduce/HorovodAllreduce_grads_0]\n",
        "unknown/hang",
        (3,),
        most=0.5,
    )


def divergence() -> Iterator[Job]:
    yield Job(
        "Megatron Core, unexpected result",
        "[rank126]: RuntimeError: Rank 126, node gpu12, device 6, iteration 4711: Unexpected "
        "result nan (message='found NaN in local grad norm for bucket #0 in backward pass before "
        "data-parallel communication collective')\n" + shuffled(wait("torch-2.7", 8), 5),
        "user/nan",
        (126,),
        ("gpu12",),
    )
    yield Job(
        "Lightning, NaN in the loss of a rank",
        traceback("[rank2]: ", "ValueError: The loss returned in `training_step` is nan."),
        "user/nan",
        (2,),
    )
    yield Job(
        "NaN on everybody",
        " iteration      512/    5000 | consumed samples:        65536 | lm loss: nan | loss "
        "scale: 1.0 | grad norm: nan |\n",
        "user/nan",
        (),
        most=0.7,
    )
    ecc = "[Tue Dec  1 03:10:00 2026] NVRM: Xid (PCI:0000:1b:00): 48, pid=4711, name=python, DBE\n"
    yield Job(
        "NaN on the rank whose node has memory errors",
        "AssertionError: Rank 3: found NaN in local grad norm in backwards pass. Device: 3, node: "
        "gpu01\n",
        "hardware/sdc",
        (3,),
        ("gpu01",),
        Drain.YES,
        kernel=(("gpu01", ecc),),
        most=0.7,
    )


# --- scheduler ----------------------------------------------------------------------------------

LIMIT = "slurmstepd: error: *** STEP 77.0 ON gpu03 CANCELLED AT 2026-12-01T04:00:00 DUE TO {} ***\n"


def scheduler() -> Iterator[Job]:
    teardown = (
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        + traceback("[rank1]: ", GLOO_CLOSED)
        + "\nsrun: error: gpu03: tasks 0-7: Terminated\n"
    )
    for reason, klass in (
        ("TIME LIMIT", "scheduler/time-limit"),
        ("PREEMPTION", "scheduler/preempted"),
        ("JOB REQUEUE", "scheduler/requeued"),
    ):
        yield Job(
            f"{reason}, then teardown", LIMIT.format(reason) + teardown, klass, nodes=("gpu03",)
        )
    yield Job(
        "an error long before the time limit",
        traceback("[rank5]: ", ERRORS["user/cuda-oom"]) + "\n" + LIMIT.format("TIME LIMIT"),
        "user/cuda-oom",
        (5,),
    )
    yield Job(
        "cancelled by its user",
        "step 12 loss 2.1\nslurmstepd: error: *** JOB 77 ON gpu03 CANCELLED AT "
        "2026-12-01T04:00:00 ***\n",
        "scheduler/cancelled",
    )
    yield Job(
        "cancelled because a task failed",
        traceback("4: ", "KeyError: 'labels'")
        + "\nsrun: error: gpu04: task 4: Exited with exit code 1\nslurmstepd: error: *** STEP 77.0 "
        "ON gpu03 CANCELLED AT 2026-12-01T04:00:00 ***\n",
        "user/python-exception",
        (4,),
        ("gpu04",),
    )
    yield Job(
        "node failure",
        "srun: error: Node failure on gpu08\nsrun: Job step aborted: Waiting up to 32 seconds for "
        "job step to finish.\n",
        "scheduler/node-failure",
        nodes=("gpu08",),
        drain=Drain.REVIEW,
    )
    yield Job(
        "prolog failed, by exit code",
        "",
        "infrastructure/prolog",
        exit_code=(0, 54),
        drain=Drain.REVIEW,
    )
    yield Job("out of memory, by exit code", "", "user/host-oom", exit_code=(0, 125))
    yield Job("segmentation fault, by exit code", "", "user/segfault", exit_code=(139, 0), most=0.7)
    yield Job("an abort explains nothing", "", "unknown/no-cause", exit_code=(0, 6), most=0.3)
    yield Job("nothing at all", "epoch 1 done\nsaved model\n", "unknown/no-cause", most=0.3)


# --- network and hardware -----------------------------------------------------------------------


def port_error(host: str) -> str:
    return (
        f"{host}:34050:34121 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_1:1 Got async "
        "event : port error"
    )


def retry(host: str, peer: str, rest: str = "error 12, opcode 2, len 1, vendor err 129") -> str:
    return (
        f"{host}:73076:73185 [4] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion from "
        f"peer {peer}<37948> with {rest}"
    )


def network() -> Iterator[Job]:
    yield Job(
        "a port that fails and its victims",
        shuffled([port_error("gpu07"), retry("gpu01", "gpu07"), retry("gpu02", "gpu07")], 1),
        "network/ib-link",
        (),
        ("gpu07",),
        Drain.REVIEW,
    )
    yield Job(
        "ports of two nodes",
        shuffled([port_error("gpu07"), port_error("gpu08"), retry("gpu01", "gpu07")], 2),
        "network/ib-link",
        drain=Drain.NO,
    )
    flush = "status=5 opcode=32656 len=32659 vendor err 249 (Recv)"
    yield Job(
        "votes for a peer, flush errors do not vote",
        "\n".join(
            [
                retry("gpu01", "10.0.0.9"),
                retry("gpu02", "10.0.0.9"),
                retry("gpu03", "10.0.0.4"),
                *(retry("gpu03", "10.0.0.4", flush) for _ in range(9)),
            ]
        ),
        "network/ib-retry",
        (),
        ("10.0.0.9",),
        Drain.REVIEW,
        most=0.7,
    )
    yield Job(
        "the same set-up error everywhere",
        "\n".join(
            retry(f"gpu0{n}", f"fe80::{n}%ib0", "error 4, opcode 32, len 32, vendor err 81 (Send)")
            for n in range(1, 6)
        ),
        "network/config",
        most=0.7,
    )
    yield Job(
        "store time-out with one absent",
        "\n".join(
            f"[rank{r}]: RuntimeError: Timed out initializing process group in store based barrier "
            f"on rank: {r}, for key: store_based_barrier_key:1 (world_size=8, worker_count=7, "
            "timeout=0:30:00)"
            for r in range(8)
            if r != 6
        ),
        "network/rendezvous",
        (6,),
        ("gpu02",),
        Drain.REVIEW,
        given=("gpu01", "gpu02"),
        tasks=4,
    )
    yield Job(
        "JAX tasks that did not come",
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
        "PjRT_Client_Connect. Timed out task names:\n/job:jax_worker/replica:0/task:3\n",
        "network/rendezvous",
        (3,),
        drain=Drain.REVIEW,
    )


def stamp(text: str) -> str:
    return f"[Tue Dec  1 03:10:00 2026] {text}\n"


XID = "NVRM: Xid (PCI:0000:{}:00): {}, pid=4711, name=python, {}"
OFF_BUS = stamp(XID.format("b3", 79, "GPU has fallen off the bus."))
NVLINK = (
    stamp(XID.format("48", 45, "channel 0x10"))
    + stamp(XID.format("48", 74, "NVLink: fatal error detected on link 8(0x0, 0x0)"))
    + stamp(XID.format("0b", 119, "Timeout waiting for RPC from GSP! Expected function 76"))
)


def hardware() -> Iterator[Job]:
    log = shuffled(wait("torch-2.7", 16, silent=(9,)), 3)
    nodes = ("gpu01", "gpu02")
    yield Job(
        "a GPU off the bus behind time-outs",
        log,
        "hardware/gpu-off-bus",
        (9,),
        ("gpu02",),
        Drain.YES,
        nodes,
        8,
        kernel=(("gpu02", OFF_BUS),),
        least=0.9,
    )
    yield Job(
        "a fake Xid in the job's log",
        "NVRM: Xid (PCI:0000:b3:00): 79, pid=1, name=python, GPU has fallen off the bus.\n",
        "hardware/gpu-off-bus",
        drain=Drain.REVIEW,
        most=0.7,
    )
    yield Job(
        "NVLink before the GSP it took along",
        "",
        "hardware/gpu-nvlink",
        None,
        ("gpu01",),
        Drain.YES,
        kernel=(("gpu01", NVLINK),),
        most=0.7,
    )
    yield Job(
        "the same Xid on two nodes",
        log,
        "hardware/gpu-off-bus",
        None,
        drain=Drain.REVIEW,
        given=nodes,
        tasks=8,
        kernel=(("gpu01", OFF_BUS), ("gpu02", OFF_BUS)),
    )
    yield Job(
        "a contained memory error, once",
        traceback("[rank1]: ", ERRORS["hardware/gpu-ecc"]),
        "hardware/gpu-ecc",
        (1,),
        drain=Drain.REVIEW,
        kernel=(("gpu01", stamp(XID.format("1b", 94, "Contained: SM (0x1)"))),),
    )
    yield Job(
        "an illegal access that the kernel saw too",
        traceback("[rank1]: ", ERRORS["user/illegal-access"]),
        "user/illegal-access",
        (1,),
        drain=Drain.NO,
        kernel=(("gpu01", stamp(XID.format("1b", 31, "Ch 00000010, intr 10000000. MMU Fault"))),),
    )
    yield Job(
        "corrected PCIe errors are not the cause",
        traceback("[rank1]: ", ERRORS["user/cuda-oom"]),
        "user/cuda-oom",
        (1,),
        kernel=(
            ("gpu01", stamp("pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0")),
        ),
    )
    yield Job(
        "the kernel's own word on memory",
        torchrun_table(1, "gpu01", -9, 1),
        "user/host-oom",
        (1,),
        ("gpu01",),
        kernel=(
            (
                "gpu01",
                stamp("Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB"),
            ),
        ),
    )
    yield Job(
        "an uncorrected memory error of the host",
        "",
        "hardware/host-memory",
        nodes=("gpu01",),
        drain=Drain.YES,
        kernel=(
            ("gpu01", stamp("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0")),
        ),
    )


def attempts() -> Iterator[Job]:
    yield Job(
        "only the last attempt counts",
        traceback("[rank7]: ", ERRORS["user/cuda-oom"])
        + "\nINFO 2026-12-01 03:00:00 [default] Worker group FAILED. 2/3 attempts left; will "
        "restart worker group\n" + traceback("[rank3]: ", "ValueError: bad sample in shard 17"),
        "user/python-exception",
        (3,),
    )


JOBS = [
    *timeouts(),
    *chains(),
    *own_causes(),
    *named_culprits(),
    *divergence(),
    *scheduler(),
    *network(),
    *hardware(),
    *attempts(),
]


@pytest.mark.parametrize("job", JOBS, ids=[job.name for job in JOBS])
def test_cause_and_culprit_are_found(job: Job) -> None:
    found = answer(job)
    assert found.klass == job.klass, "\n".join(found.steps)
    if job.ranks is not None:
        assert found.root.ranks == job.ranks, "\n".join(found.steps)
    if job.nodes is not None:
        assert found.root.nodes == job.nodes, "\n".join(found.steps)
    assert found.drain is job.drain, "\n".join(found.steps)
    assert job.least <= found.confidence <= job.most


def test_there_are_at_least_sixty_of_them() -> None:
    assert len(JOBS) >= 60
    assert len({job.name for job in JOBS}) == len(JOBS)


@pytest.mark.parametrize("job", JOBS, ids=[job.name for job in JOBS])
def test_text_alone_never_drains(job: Job) -> None:
    found = answer(job._replace(kernel=()))
    assert found.drain is not Drain.YES


def _stands_alone(line: str) -> bool:
    return not line or (line.startswith("[rank") and "Traceback" not in line)


ANY_ORDER = [job for job in JOBS if job.log and all(map(_stands_alone, job.log.split("\n")))]


@pytest.mark.parametrize("job", ANY_ORDER, ids=[job.name for job in ANY_ORDER])
def test_order_of_lines_does_not_change_the_answer(job: Job) -> None:
    other = job._replace(log="\n".join(reversed(job.log.split("\n"))))
    assert answer(other).root == answer(job).root
    assert answer(other).klass == job.klass


def test_several_of_them_can_be_put_in_any_order() -> None:
    assert len(ANY_ORDER) >= 8
