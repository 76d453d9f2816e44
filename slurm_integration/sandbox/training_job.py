"""A small data-parallel training job for the demo: gloo, one rank a Slurm task, no GPU needed.

Run by whichever interpreter has torch; uses nothing of ours. Before each step it asks NVML for its
node's GPUs, as a CUDA program would find out that one is gone. DEMO_NAN_RANK gets a NaN at step 3.
"""

import os
import sys
import time
from datetime import timedelta

import pynvml  # noqa: TID251 - it stands for CUDA, in a job of its own
import torch  # noqa: TID251 - this is a job, not part of flightcheck
import torch.distributed as dist  # noqa: TID251

STEPS = 10


def main() -> None:
    """Train: every step ends in an all_reduce that all ranks must join."""
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    dist.init_process_group(
        "gloo",
        init_method=f"file://{sys.argv[1]}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=6),
    )
    torch.manual_seed(rank)
    model = torch.nn.Linear(64, 1)
    pynvml.nvmlInit()
    for step in range(STEPS):
        train(model, rank, step)
        if rank == 0:
            print(f"iteration {step:4d}/{STEPS} | consumed samples: {(step + 1) * world * 8}",
                  flush=True)  # fmt: skip
        time.sleep(0.25)


def train(model: torch.nn.Module, rank: int, step: int) -> None:
    """One step."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        pynvml.nvmlDeviceGetTemperature(
            pynvml.nvmlDeviceGetHandleByIndex(index), pynvml.NVML_TEMPERATURE_GPU
        )
    loss = model(torch.randn(8, 64)).square().mean()
    if step == 3 and rank == int(os.environ.get("DEMO_NAN_RANK", "-1")):
        loss = loss * float("nan")
    if torch.isnan(loss):
        node = os.environ.get("SLURMD_NODENAME", "?")
        raise RuntimeError(
            f"Rank {rank}: found NaN in local forward loss calculation at iteration {step}. "
            f"Device: cpu, node: {node}"
        )
    loss.backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)


if __name__ == "__main__":
    main()
