"""Jobs that Slurm ended."""

from collections.abc import Iterator

from job_wordings import ERRORS, GLOO_CLOSED, Job, traceback

from epilog.model import Drain

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
