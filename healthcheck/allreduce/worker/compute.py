"""Matrix products whose result is known, and bitwise the same on every GPU of one kind."""

from __future__ import annotations

import time
from typing import Any

import torch  # noqa: TID251 - this is the child that may

from . import words
from .collective import Collective
from .integrity import Send, digest

TYPES = ("float32", "bfloat16", "float16")


def multiply(ranks: Collective, size: int, rounds: int, seed: int, send: Send) -> None:
    """Exact products checked by their column sums, and random ones told by their digest.

    The factors are the same on every rank. Entries of the exact product are sums of at most
    `size` products of integers of magnitude 3 or less: exact in float32 in any order. Its column
    sums must be those of the first factor times the second, which integers tell (the checksum of
    algorithm-based fault tolerance), so that each rank knows by itself whether it is wrong.
    """
    for number, name in enumerate(TYPES[: 1 if ranks.device.type == "cpu" else None]):
        ranks.slot.in_phase("compute " + name)
        kind = getattr(torch, name)
        a, b = _factors(size, seed + 2 * number, ranks.device, exact=True)
        wrong = _exact(a, b, kind)
        a, b = (m.to(kind) for m in _factors(size, ~seed + 2 * number, ranks.device, exact=False))
        seconds, last = _timed(ranks, a, b, rounds)
        send("matmul", dtype=name, size=size, seconds=seconds, digest=digest(last), **wrong)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product under test."""
    return a @ b


def _factors(size: int, seed: int, device: Any, *, exact: bool) -> tuple[Any, Any]:
    make = words.small if exact else words.uniform
    a, b = (make(words.mix(seed + n), size * size, device).view(size, size) for n in range(2))
    return a, b


def _exact(a: torch.Tensor, b: torch.Tensor, kind: Any) -> dict[str, Any]:
    """{} where the product of two integer matrices is right, else which column is not.

    Half types round each entry, so the integers they get keep the sums below their precision.
    """
    if kind is not torch.float32:
        keep = 16 if kind is torch.bfloat16 else 128
        a = a.clone()
        a[:, keep:] = 0
        a.clamp_(-1, 1)
    right = (a.sum(0, keepdim=True).double() @ b.double())[0]
    got = product(a.to(kind), b.to(kind)).double().sum(0)
    differs = got.ne(right)
    wrong = int(differs.count_nonzero())
    if not wrong:
        return {}
    column = int(differs.to(torch.uint8).argmax())
    # As text: JSON has no NaN.
    return {
        "wrong": wrong, "column": column,
        "got": str(float(got[column])), "want": str(float(right[column])),
    }  # fmt: skip


def _timed(ranks: Collective, a: Any, b: Any, rounds: int) -> tuple[float, torch.Tensor]:
    last = product(a, b)
    ranks.synchronise()
    started = time.perf_counter()
    for _ in range(rounds):
        last = product(a, b)
    ranks.synchronise()
    return (time.perf_counter() - started) / max(rounds, 1), last
