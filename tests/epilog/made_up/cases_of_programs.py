"""The program's own causes: exceptions, named culprits, ranks that diverge, earlier attempts."""

from collections.abc import Iterator

from job_wordings import ERRORS, GLOO_CLOSED, Job, shuffled, torchrun_table, traceback, wait

from epilog.model import Drain

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


def attempts() -> Iterator[Job]:
    yield Job(
        "only the last attempt counts",
        traceback("[rank7]: ", ERRORS["user/cuda-oom"])
        + "\nINFO 2026-12-01 03:00:00 [default] Worker group FAILED. 2/3 attempts left; will "
        "restart worker group\n" + traceback("[rank3]: ", "ValueError: bad sample in shard 17"),
        "user/python-exception",
        (3,),
    )
