"""What every rank contributes, and what the reduction must give: exact in any order of adding.

Two hash words a position, the same on all ranks, are mixed by per-rank multipliers. For int32 the
sum over the ranks wraps around and is known from the sums of the multipliers, whatever the number
of ranks; every bit of a contribution and of the sum toggles, because all first multipliers are odd
and exactly one second multiplier is. Floats carry integers small enough that their sum stays exact
in the type, times a power of two that depends on the position alone, so that exponents toggle too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch  # noqa: TID251 - this is the child that may

MASK = 0xFFFFFFFF
PRECISION = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Significant bits p: sums of n integers below 2^p / n are exact."""
_SCALES = {
    "float32": (-48, -31, -16, -1, 0, 9, 30, 45),
    "bfloat16": (-48, -31, -16, -1, 0, 9, 30, 45),
    "float16": (-4, -3, -2, -1, 0, 1, 2, 3),
}
DTYPES = {
    "int32": torch.int32,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
BITS = {
    "int32": torch.int32,
    "float32": torch.int32,
    "float16": torch.int16,
    "bfloat16": torch.int16,
}


class Case(NamedTuple):
    """One verified all_reduce: operation, element type, length, and the seed of its words."""

    op: str
    dtype: str
    elements: int
    seed: int
    ranks: int
    inverted: int | None = None
    """To find a sender: this rank sends its words with every bit inverted; nobody where -1."""

    @property
    def name(self) -> str:
        """`sum float32 262144`."""
        told = "" if self.inverted is None else f" inverted by rank {self.inverted}"
        return f"{self.op} {self.dtype} {self.elements}{told}"


def inexact(op: str, dtype: str, ranks: int) -> str | None:
    """Why this reduction could not be compared bit by bit with so many ranks, or None."""
    if dtype == "int32":
        return "the mean of integers is rounded" if op == "avg" else None
    if op == "avg" and ranks & (ranks - 1):
        return f"the mean of {ranks} ranks is not exact in binary"
    if op != "max" and ranks > 1 << (PRECISION[dtype] - 1):
        return f"{dtype} holds no exact sum of {ranks} ranks"
    return None


def contribution(case: Case, rank: int, start: int, count: int, device: Any) -> torch.Tensor:
    """Elements [start, start + count) of what `rank` sends."""
    first, second = _hashes(case.seed, start, count, device)
    number = _mixed(case, rank, first, second)
    if case.inverted == rank:
        return number.bitwise_not_()
    return number if case.dtype == "int32" else _scaled(case, number, second)


def expected(case: Case, start: int, count: int, device: Any) -> torch.Tensor:
    """Elements [start, start + count) of the right result."""
    first, second = _hashes(case.seed, start, count, device)
    if case.dtype == "int32" and case.op == "sum":
        each = [_multipliers(case, rank) for rank in range(case.ranks)]
        if case.inverted is not None and case.inverted >= 0:
            a, b, c = each[case.inverted]
            each[case.inverted] = -a, -b, ~c  # the bits of x inverted are -x - 1
        a, b, c = (sum(one[i] for one in each) for i in range(3))
        return _combine(first, second, a, b, c)
    total = _mixed(case, 0, first, second)
    for rank in range(1, case.ranks):
        number = _mixed(case, rank, first, second)
        total = torch.maximum(total, number) if case.op == "max" else total.add_(number)
    if case.dtype == "int32":
        return total
    shift = case.ranks.bit_length() - 1 if case.op == "avg" else 0
    return _scaled(case, total, second, shift)


def uniform(seed: int, count: int, device: Any) -> torch.Tensor:
    """float32 in [-1, 1), the same on every device."""
    return (_hashes(seed, 0, count, device)[0] >> 8).to(torch.float32).mul_(2.0**-23)


def small(seed: int, count: int, device: Any) -> torch.Tensor:
    """float32 integers from -3 to 3, the same on every device."""
    words = (_hashes(seed, 0, count, device)[0] >> 8) & 0xFFFF
    return words.remainder_(7).sub_(3).to(torch.float32)


def mix(value: int) -> int:
    """A 64-bit finaliser (splitmix64's), on plain integers."""
    value = (value + 0x9E3779B97F4A7C15) & (1 << 64) - 1
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    value = (value ^ value >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return value ^ value >> 31


def signed(value: int) -> int:
    """The low 32 bits as the int32 they are."""
    value &= MASK
    return value - (1 << 32) if value >> 31 else value


def _multipliers(case: Case, rank: int) -> tuple[int, int, int]:
    word = mix(case.seed ^ mix(rank + 1))
    again = mix(word)
    odd_second = int(rank == 0)
    return word | 1, (again & ~1) | odd_second, (again >> 32) ^ (word >> 32)


_kept: dict[tuple[int, int, int], tuple[torch.Tensor, torch.Tensor]] = {}
KEPT_CHUNKS = 32
"""A CPU needs the same words three times a case and is slow to make them; a GPU is not."""


def _hashes(seed: int, start: int, count: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two well-mixed words a position, by multiply and xor-shift. Not to be written to."""
    key = (seed, start, count)
    if key in _kept:
        return _kept[key]
    first = torch.arange(count, dtype=torch.int32, device=device).add_(signed(start))
    first.mul_(signed(0x9E3779B1)).add_(signed(mix(seed)))
    first.bitwise_xor_(first >> 16).mul_(signed(0x85EBCA6B))
    first.bitwise_xor_(first >> 13).mul_(signed(0xC2B2AE35))
    first.bitwise_xor_(first >> 16)
    second = first.mul(signed(0x27D4EB2F))
    second.bitwise_xor_(second >> 15)
    if first.device.type == "cpu":
        if len(_kept) >= KEPT_CHUNKS:
            _kept.clear()
        _kept[key] = first, second
    return first, second


def _combine(first: torch.Tensor, second: torch.Tensor, a: int, b: int, c: int) -> torch.Tensor:
    return (first * signed(a)).add_(second, alpha=signed(b)).add_(signed(c))


def _mixed(case: Case, rank: int, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The integers that `rank` contributes, before a float's scale."""
    words = _combine(first, second, *_multipliers(case, rank))
    if case.dtype == "int32":
        return words
    # The highest bits are the best mixed; keep enough of them for -2^k <= number < 2^k.
    k = PRECISION[case.dtype] - (0 if case.op == "max" else (case.ranks - 1).bit_length())
    return words >> (31 - k)


def _scaled(case: Case, number: torch.Tensor, second: torch.Tensor, shift: int = 0) -> torch.Tensor:
    table = torch.tensor(
        [2.0 ** (power - shift) for power in _SCALES[case.dtype]],
        dtype=torch.float32,
        device=number.device,
    )
    scale = table[(second & 7).to(torch.int64)]
    return scale.mul_(number).to(DTYPES[case.dtype])
