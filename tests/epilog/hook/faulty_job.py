"""One rank of a torch.distributed job on gloo; rank 2 goes wrong at step 3 in the way asked for.

Started by srun (a task a rank) or by torchrun. Every rank notes on which node it is, for the test,
and leaves its flight recorder where the epilog looks for it.
"""

import ctypes
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

case, folder = sys.argv[1:3]
rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "")))
dumps = f"flightcheck-{os.environ['SLURM_JOB_ID']}"
os.makedirs(dumps, exist_ok=True)
with open(f"{folder}/rank-{rank}", "w") as file:
    file.write(os.environ["SLURMD_NODENAME"])
dist.init_process_group(
    "gloo",
    init_method="env://" if "RANK" in os.environ else f"file://{folder}/store",
    rank=rank,
    world_size=4,
    timeout=datetime.timedelta(seconds=6),
)


def train(step: int) -> None:
    """Sum the gradients of all ranks, as every step does."""
    gradients = torch.full((8,), float(rank))
    if rank == 2 and step == 3:
        gradients = go_wrong(gradients)
    if not torch.isfinite(gradients).all():
        # As Megatron-LM says it, which looks before the sum.
        raise RuntimeError(
            f"Rank {rank}: found NaN in local grad norm for bucket #0 in step {step}"
        )
    dist.all_reduce(gradients)
    print(f"step {step} done", flush=True)


def go_wrong(gradients: torch.Tensor) -> torch.Tensor:
    """What rank 2 hands to its all_reduce, if it gets that far."""
    if case == "raise":
        raise ValueError("the inputs of this rank do not fit")
    if case == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "segv":
        ctypes.string_at(0)
    if case == "exit0":
        os._exit(0)
    if case == "disk":
        with open("/dev/full", "wb") as checkpoint:
            checkpoint.write(bytes(1 << 20))
    if case == "nan":
        return gradients * float("inf") * 0
    if case == "shape":
        return torch.ones(5)
    if case == "other":
        dist.broadcast(gradients, 0)
    if case == "hang":
        time.sleep(16)
    return gradients


def barrier() -> None:
    """Everybody meets, and rank 2 is late."""
    if rank == 2:
        time.sleep(12)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=4), wait_all_ranks=True)


try:
    for step in range(6):
        if case == "barrier" and step == 3:
            barrier()
        if not (case == "skip" and rank == 2 and step == 3):
            train(step)
finally:
    with open(f"{dumps}/fr_{rank}", "wb") as file:
        file.write(c10d._dump_fr_trace(True, True, False))
