"""One rank: join, connect, verify, compute, measure, leave."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch  # noqa: TID251 - this is the child that may
import torch.distributed as dist  # noqa: TID251

from . import bandwidth, compute, integrity, words
from .collective import Collective, absent, await_listener
from .talk import Pipe, Slot

LEAVE_S = 5.0


class CouldNotStartError(Exception):
    """Nothing was tested yet: `cause` says in one word what is missing."""

    def __init__(self, cause: str, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause


class Rank:
    """A rank at work; `plan` is what the supervisor sent."""

    def __init__(self, plan: dict[str, Any], local: int, pipe: Pipe, slot: Slot) -> None:
        self.plan = plan
        self.local = local
        self.number = plan["first"] + local
        self.slot = slot
        self._pipe = pipe

    def send(self, kind: str, /, **fields: Any) -> None:
        """A message that carries this rank's number."""
        self._pipe.send(kind, rank=self.number, **fields)

    def work(self) -> None:
        """Everything, each part told as a phase; what breaks is told and ends this rank."""
        self.slot.start_pulse()
        try:
            self._work()
        except CouldNotStartError as error:
            self.send("error", kind="start", cause=error.cause, reason=str(error))
        except Exception as error:  # noqa: BLE001 - told to the supervisor, who judges
            self.send("error", kind="failed", phase=self.slot.phase, call=self.slot.call,
                      reason=f"{type(error).__name__}: {error}")  # fmt: skip

    def _work(self) -> None:
        self.slot.in_phase("device")
        device = self._device()
        self.slot.in_phase("join")
        store = self._join()
        self.slot.in_phase("connect")
        group = self._connect(store, device)
        cases = self._cases()
        if self.plan["ranks"] > 1:
            integrity.run_all(group, cases, self.send, self.plan["timeout_s"])
            if self.plan["random_count"]:
                integrity.repeatable(group, self.plan["random_count"], self.plan["seed"], self.send)
        if self.plan["matmul"]:
            compute.multiply(
                group, self.plan["matmul"], self.plan["rounds"], self.plan["seed"], self.send
            )
        if self.plan["ranks"] > 1:
            for size in self.plan["sizes"]:
                bandwidth.measure(
                    group, size, self.plan["dtype"], self.plan["warmups"],
                    self.plan["iterations"], self.send,
                )  # fmt: skip
        self.send("done")
        self.slot.in_phase("done")
        # Whoever leaves first resets connections that others may still be reading from.
        try:
            store.set(f"left/{self.number}", "1")
            absent(store, [f"left/{r}" for r in range(self.plan["ranks"])], LEAVE_S, 0.01)
        except Exception:  # noqa: BLE001 - the store's node has left before: all is told already
            pass

    def _device(self) -> Any:
        if self.plan["backend"] != "nccl":
            return torch.device("cpu")
        if not dist.is_nccl_available():
            raise CouldNotStartError("no-nccl", "this torch was built without NCCL")
        try:
            torch.cuda.init()
            if torch.cuda.device_count() <= self.local:
                raise RuntimeError(f"CUDA shows {torch.cuda.device_count()} GPUs")
            torch.cuda.set_device(self.local)
            torch.zeros(1, device="cuda").add_(1).item()
        except Exception as error:
            raise CouldNotStartError("no-cuda", str(error)) from error
        found = torch.cuda.get_device_properties(self.local)
        self.send("device", name=found.name, uuid=str(getattr(found, "uuid", "")) or None,
                  memory=found.total_memory)  # fmt: skip
        return torch.device("cuda", self.local)

    def _join(self) -> Any:
        """The store, once every rank has shown up there."""
        where = self.plan["store"]
        wait = self.plan["join_s"]
        until = time.monotonic() + wait
        try:
            if not where["serve"]:
                await_listener(where["host"], where["port"], until)
            store = dist.TCPStore(
                where["host"], where["port"], is_master=False, wait_for_workers=False,
                timeout=timedelta(seconds=wait),
            )  # fmt: skip
        except Exception as error:
            at = f"{where['host']}:{where['port']}"
            raise CouldNotStartError(
                "rendezvous", f"no answer from the rendezvous at {at}: {error}"
            ) from error
        name = self.plan.get("node") or socket.gethostname()
        store.set(f"here/{self.number}", name)
        ranks = range(self.plan["ranks"])
        missing = absent(store, [f"here/{r}" for r in ranks], until - time.monotonic())
        if missing:
            self.send("absent", ranks=missing[:256])
            raise CouldNotStartError(
                "absent", f"ranks {missing[:32]} did not show up within {wait:g} s"
            )
        if self.local == 0:
            for r in ranks:
                self.send("peer", of=r, node=store.get(f"here/{r}").decode()[:255])
        return store

    def _connect(self, store: Any, device: Any) -> Collective:
        """The process group, proven by one small collective."""
        started = time.monotonic()
        group = Collective(self.slot, store, self.number, self.plan["ranks"], device)
        try:
            dist.init_process_group(
                self.plan["backend"], store=dist.PrefixStore("group", store), rank=self.number,
                world_size=self.plan["ranks"], timeout=timedelta(seconds=self.plan["timeout_s"]),
            )  # fmt: skip
            group.all_reduce(torch.ones(1, device=device), "sum", "first")
        except Exception as error:
            raise CouldNotStartError("connect", str(error)) from error
        self.send("connected", seconds=round(time.monotonic() - started, 3))
        return group

    def _cases(self) -> list[words.Case]:
        cases = []
        for number, (op, dtype, count) in enumerate(self.plan["cases"]):
            why = words.inexact(op, dtype, self.plan["ranks"])
            if op == "avg" and self.plan["backend"] == "gloo":
                why = "gloo has no AVG"
            if why:
                self.send("skipped", case=f"{op} {dtype} {count}", reason=why)
                continue
            seed = words.mix(self.plan["seed"] + number)
            cases.append(words.Case(op, dtype, count, seed, self.plan["ranks"]))
        return cases


def rehearse() -> None:
    """Every kind of work once on a few elements, on the CPU and before the fork.

    What torch sets up when an operation is first used is then set up once, and the ranks share it.
    """
    for op, dtype in (
        ("sum", "int32"),
        ("max", "float32"),
        ("sum", "float16"),
        ("sum", "bfloat16"),
    ):
        case = words.Case(op, dtype, 8, 1, 2)
        tensor = integrity.fill(case, 0, integrity.buffer(case, "cpu"))
        integrity.examine(case, tensor, lambda *at, case=case: words.expected(case, *at))
    integrity.digest(compute.product(words.uniform(1, 4, "cpu").view(2, 2), torch.ones(2, 2)))


def become(plan: dict[str, Any], local: int, pipe: Pipe, slot: Slot) -> None:
    """The life of a forked rank. Never returns: destructors of a sick driver could hang it."""
    try:
        Rank(plan, local, pipe, slot).work()
    finally:
        os._exit(0)
