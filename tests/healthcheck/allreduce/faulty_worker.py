"""The real worker with one fault: FAULT=NAME:RANK in the environment, honoured nowhere else.

Executed in place of `worker/run.py`; the product has no injection switch.
"""

import importlib
import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

WORKER = Path(__file__).parents[3] / "healthcheck" / "allreduce" / "worker"
NAME, _, RANK = os.environ.get("FAULT", "none").partition(":")
RANK = int(RANK or 0)


def load():
    spec = importlib.util.spec_from_file_location("run", WORKER / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    run.load(str(WORKER))
    return run.PACKAGE


def part(name):
    return importlib.import_module(f"{PACKAGE}.{name}")


def around_all_reduce(change):
    """`change(collective, tensor, op, label, reduce)` in place of every all_reduce on RANK."""
    kind = part("collective").Collective
    real = kind.all_reduce

    def all_reduce(self, tensor, op, label=""):
        def reduce(one=tensor):
            return real(self, one, op, label)

        if self.rank == RANK and label != "first":
            return change(self, tensor, op, label, reduce)
        return reduce()

    kind.all_reduce = all_reduce


def verified(tensor):
    return tensor.numel() > 1000


def flip(tensor, index=700, bit=7):
    import torch

    bits = torch.int32 if tensor.element_size() == 4 else torch.int16
    tensor.view(bits)[index] ^= 1 << bit


def contribution():
    integrity = part("integrity")
    real = integrity.fill

    def fill(case, rank, tensor):
        real(case, rank, tensor)
        if rank == RANK and case.dtype == "float32":
            flip(tensor)
        return tensor

    integrity.fill = fill


def nan():
    integrity = part("integrity")
    real = integrity.fill

    def fill(case, rank, tensor):
        real(case, rank, tensor)
        if rank == RANK and tensor.is_floating_point():
            tensor[3] = float("nan")
        return tensor

    integrity.fill = fill


def sent():
    def change(self, tensor, op, label, reduce):
        if verified(tensor) and "timed" not in label:
            flip(tensor)
        reduce()

    around_all_reduce(change)


def result():
    def change(self, tensor, op, label, reduce):
        reduce()
        if verified(tensor) and not label:
            flip(tensor, bit=3)

    around_all_reduce(change)


def late():
    def change(self, tensor, op, label, reduce):
        if label == "timed":
            time.sleep(0.4)
        reduce()

    around_all_reduce(change)


def at_call(number, act):
    def change(self, tensor, op, label, reduce):
        if self.slot.entered == number:
            act()
        reduce()

    around_all_reduce(change)


def killed():
    at_call(4, lambda: os.kill(os.getpid(), signal.SIGKILL))


def stopped():
    at_call(4, lambda: os.kill(os.getpid(), signal.SIGSTOP))


def asleep():
    at_call(4, lambda: time.sleep(600))


def shape():
    def change(self, tensor, op, label, reduce):
        reduce(tensor[: tensor.numel() // 2] if self.slot.entered == 3 else tensor)

    around_all_reduce(change)


def skipped():
    calls = []

    def change(self, tensor, op, label, reduce):
        calls.append(op)
        if len(calls) != 3:
            reduce()

    around_all_reduce(change)


def raises():
    def act():
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    at_call(4, act)


def matmul():
    compute = part("compute")
    real, group = compute.product, part("collective").Collective
    made = group.__init__
    mine = []

    def init(self, slot, store, rank, *more):
        made(self, slot, store, rank, *more)
        mine.append(rank)

    def product(a, b):
        right = real(a, b)
        if mine and mine[-1] == RANK:
            right[5, 9] += 1
        return right

    group.__init__ = init
    compute.product = product


def no_torch():
    sys.modules["torch"] = None


def no_import():
    time.sleep(600)


def garbage():
    os.write(3, b'\xff\x00 no message\n[1,2]\n{"t": 7}\n' + b"x" * 300_000 + b"\n")


def leader_dies():
    os.kill(os.getpid(), signal.SIGKILL)


def no_cuda():
    """As on a node whose driver is broken: torch has NCCL, CUDA does not come up."""
    import torch
    import torch.distributed as dist

    def init():
        raise RuntimeError("CUDA driver initialization failed, you might not have a CUDA gpu.")

    dist.is_nccl_available = lambda: True
    torch.cuda.init = init


FAULTS = {name: act for name, act in globals().items() if callable(act)}
PACKAGE = load()

if __name__ == "__main__":
    if NAME != "none":
        FAULTS[NAME]()
    part("leader").lead(int(sys.argv[1]), int(sys.argv[2]))
