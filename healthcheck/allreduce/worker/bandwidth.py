"""Timed all_reduces of one size; how long each took on this rank."""

from __future__ import annotations

import time

import torch  # noqa: TID251 - this is the child that may
import torch.distributed as dist  # noqa: TID251

from .collective import OPS, Collective
from .integrity import Send
from .words import DTYPES

TINY = 2.0**-100
"""Sums in place grow by the number of ranks each time and stay finite from here."""


def measure(
    ranks: Collective, size: int, dtype: str, warmups: int, iterations: int, send: Send
) -> None:
    """Reduce `size` bytes `iterations` times after `warmups`; send the seconds of each.

    On a GPU by CUDA events with nothing waiting in between, as nccl-tests does; `total` is then
    the mean's numerator. On a CPU by the clock inside each call, so
    that a rank which comes late spends less time there than those who wait for it.
    """
    ranks.slot.in_phase(f"bandwidth {size} bytes")
    kind = DTYPES[dtype]
    tensor = torch.full((size // kind.itemsize,), TINY, dtype=kind, device=ranks.device)
    for _ in range(warmups):
        ranks.all_reduce(tensor, "sum", "warm-up")
    ranks.all_reduce(torch.zeros(1, device=ranks.device), "sum", "barrier")
    cuda = ranks.device.type == "cuda"
    times, total = (_events if cuda else _clock)(ranks, tensor, iterations)
    send("times", bytes=tensor.numel() * tensor.element_size(), dtype=dtype, total=total,
         times=[float(f"{t:.4g}") for t in times[:128]])  # fmt: skip


def _clock(ranks: Collective, tensor: torch.Tensor, iterations: int) -> tuple[list[float], float]:
    times = []
    started = time.perf_counter()
    for _ in range(iterations):
        ranks.all_reduce(tensor, "sum", "timed")
        times.append(ranks.spent)
    return times, time.perf_counter() - started


def _events(ranks: Collective, tensor: torch.Tensor, iterations: int) -> tuple[list[float], float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
    marks[0].record()
    for mark in marks[1:]:
        ranks.enter(tensor, "sum", "timed")
        dist.all_reduce(tensor, OPS["sum"])
        mark.record()
    ranks.synchronise()
    for _ in range(iterations):
        ranks.slot.leave()
    times = [marks[i].elapsed_time(marks[i + 1]) / 1e3 for i in range(iterations)]
    return times, marks[0].elapsed_time(marks[-1]) / 1e3
