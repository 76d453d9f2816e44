"""One rank of a job on gloo; rank 2 issues another collective. Leaves its dump in OUT."""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

rank = int(os.environ["RANK"])
store = f"file://{sys.argv[1]}/store"
dist.init_process_group(
    "gloo", init_method=store, rank=rank, world_size=4, timeout=datetime.timedelta(seconds=4)
)
try:
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    if rank == 2:
        dist.broadcast(torch.ones(4), 0)
    else:
        dist.all_reduce(torch.ones(4))
except RuntimeError:
    pass
with open(f"{sys.argv[1]}/trace_{rank}", "wb") as file:
    file.write(c10d._dump_fr_trace(True, True, False))
time.sleep(1)
os._exit(1)
