"""The one place where ranks meet: every collective of the test goes through here.

What is about to be reduced is noted in the rank's slot first, from the tensor itself, so that a
rank that sends the wrong shape or skips a step shows up by its slot even when everybody hangs.
"""

from __future__ import annotations

import socket
import time
from typing import Any

import torch  # noqa: TID251 - this is the child that may
import torch.distributed as dist  # noqa: TID251

from .talk import Slot

OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "avg": dist.ReduceOp.AVG}


class Collective:
    """The process group of one rank."""

    def __init__(self, slot: Slot, store: Any, rank: int, ranks: int, device: Any) -> None:
        self.slot = slot
        self.store = store
        self.rank = rank
        self.ranks = ranks
        self.device = device
        self.spent = 0.0
        """Seconds inside the last collective."""
        self._exchanges = 0

    def all_reduce(self, tensor: torch.Tensor, op: str, label: str = "") -> None:
        """Reduce in place and wait until it is done."""
        self.enter(tensor, op, label)
        began = time.perf_counter()
        dist.all_reduce(tensor, OPS[op])
        self.synchronise()
        self.spent = time.perf_counter() - began
        self.slot.leave()

    def enter(self, tensor: torch.Tensor, op: str, label: str) -> None:
        """Note what comes next."""
        kind = str(tensor.dtype).replace("torch.", "")
        self.slot.enter(f"{op} {kind} {tensor.numel()} {label}".rstrip())

    def synchronise(self) -> None:
        """Wait for the device. The CPU's collectives have waited already."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def exchange(self, text: str, wait_s: float) -> list[str]:
        """Everybody's text, by rank, through the store and not through what is being tested.

        Raises RuntimeError naming the ranks that did not come.
        """
        self._exchanges += 1
        keys = [f"exchange{self._exchanges}/{rank}" for rank in range(self.ranks)]
        self.store.set(keys[self.rank], text)
        missing = absent(self.store, keys, wait_s)
        if missing:
            raise RuntimeError(f"ranks {missing} did not come to the exchange of results")
        return [self.store.get(key).decode() for key in keys]


def await_listener(host: str, port: int, until: float) -> None:
    """Return as soon as somebody listens there; OSError where nobody does by `until` (monotonic).

    TCPStore waits by itself, but up to two and a half times as long as it was told to (measured
    with torch 2.13: 12.4 s for 5, 40.6 s for 30), and then the whole test counts as stalled.
    """
    while True:
        left = until - time.monotonic()
        try:
            socket.create_connection((host, port), timeout=max(0.1, min(left, 2.0))).close()
            return
        except OSError:
            if left <= 0:
                raise
        time.sleep(0.1)


def absent(store: Any, keys: list[str], wait_s: float, longest_s: float = 0.05) -> list[int]:
    """The numbers of the keys that nobody has set within `wait_s` seconds."""
    until = time.monotonic() + wait_s
    missing = list(range(len(keys)))
    pause = 0.002
    while missing:
        if store.check([keys[number] for number in missing]):
            return []
        missing = [number for number in missing if not store.check([keys[number]])]
        if time.monotonic() >= until:
            return missing
        time.sleep(pause)
        pause = min(pause * 1.5, longest_s)
    return missing
