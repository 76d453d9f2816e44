"""One rank of a torch.distributed job on gloo; rank 2 goes wrong at step 3 in the way asked for.

Every rank that can leaves its flight recorder where the epilog looks for it.
"""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

case, folder = sys.argv[1:3]
rank = int(os.environ["SLURM_PROCID"])
dumps = f"flightcheck-{os.environ['SLURM_JOB_ID']}"
os.makedirs(dumps, exist_ok=True)
dist.init_process_group(
    "gloo",
    init_method=f"file://{folder}/store",
    rank=rank,
    world_size=4,
    timeout=datetime.timedelta(seconds=6),
)


def go_wrong(tensor: torch.Tensor) -> torch.Tensor | None:
    """What rank 2 hands to the next all_reduce; None where it makes none."""
    if case == "raise":
        raise ValueError("the inputs of this rank do not fit")
    if case == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "leaves":
        os._exit(0)
    if case == "shape":
        return torch.ones(5)
    if case == "op":
        dist.broadcast(tensor, 0)
        return None
    if case == "hang":
        time.sleep(16)
    return tensor


try:
    for step in range(5):
        given = torch.ones(8)
        given = go_wrong(given) if step == 3 and rank == 2 else given
        if given is not None:
            dist.all_reduce(given)
finally:
    with open(f"{dumps}/fr_{rank}", "wb") as file:
        file.write(c10d._dump_fr_trace(True, True, False))
