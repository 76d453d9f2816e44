"""What every rank contributes, and what the reduction must give: exact in any order of adding.

Two well-mixed words a position, the same on all ranks and repeated every BLOCK elements, are
multiplied and shifted by numbers that depend on the seed, the block and the rank. For int32 the
sum over the ranks wraps around and is known from the sums of these numbers, whatever the number of
ranks; every bit of a contribution and of the sum toggles, because all first multipliers are odd
and exactly one second multiplier is. Floats carry integers small enough that their sum stays exact
in the type, times a power of two that depends on the position alone, so that exponents toggle too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch  # noqa: TID251 - this is the child that may

MASK = 0xFFFFFFFF
BLOCK = 1 << 18
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


class Place:
    """Elements [start, start + count) of the numbers that belong to `seed`."""

    def __init__(self, seed: int, start: int, count: int, device: Any) -> None:
        self.seed = seed
        self.start = start
        self.count = count
        self.device = device


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
    at = Place(case.seed, start, count, device)
    number = _number(case, at, _multipliers(case, rank))
    if case.inverted == rank:
        return number.bitwise_not_()
    return number if case.dtype == "int32" else _scaled(case, number, at)


def expected(case: Case, start: int, count: int, device: Any) -> torch.Tensor:
    """Elements [start, start + count) of the right result."""
    at = Place(case.seed, start, count, device)
    each = [_multipliers(case, rank) for rank in range(case.ranks)]
    if case.dtype == "int32" and case.op == "sum":
        if case.inverted is not None and case.inverted >= 0:
            a, b, c = each[case.inverted]
            each[case.inverted] = -a, -b, ~c  # the bits of x inverted are -x - 1
        a, b, c = (sum(one[i] for one in each) for i in range(3))
        return _linear(at, a, b, c)
    total = _number(case, at, each[0])
    for one in each[1:]:
        number = _number(case, at, one)
        total = torch.maximum(total, number) if case.op == "max" else total.add_(number)
    if case.dtype == "int32":
        return total
    shift = case.ranks.bit_length() - 1 if case.op == "avg" else 0
    return _scaled(case, total, at, shift)


def uniform(seed: int, count: int, device: Any) -> torch.Tensor:
    """float32 in [-1, 1), the same on every device."""
    return (_linear(Place(seed, 0, count, device), 1, 1, 0) >> 8).to(torch.float32).mul_(2.0**-23)


def small(seed: int, count: int, device: Any) -> torch.Tensor:
    """float32 integers from -3 to 3, the same on every device."""
    words = (_linear(Place(seed, 0, count, device), 1, 1, 0) >> 8) & 0xFFFF
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


_base: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}


def base(device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """BLOCK pairs of well-mixed words (multiply and xor-shift), made once; never write to them."""
    known = _base.get(str(device))
    if known is None:
        first = torch.arange(BLOCK, dtype=torch.int32, device=device).mul_(signed(0x9E3779B1))
        first.bitwise_xor_(first >> 16).mul_(signed(0x85EBCA6B))
        first.bitwise_xor_(first >> 13).mul_(signed(0xC2B2AE35))
        first.bitwise_xor_(first >> 16)
        second = first.mul(signed(0x27D4EB2F))
        known = _base[str(device)] = first, second.bitwise_xor_(second >> 15)
    return known


def _linear(at: Place, a: int, b: int, c: int) -> torch.Tensor:
    """a · first + b · second + c, the two words of each position being those of its block."""
    first, second = base(at.device)
    number, skip = divmod(at.start, BLOCK)
    if skip + at.count <= BLOCK:
        x, y, z = _coefficients(at.seed, number, a, b, c)
        end = skip + at.count
        return (first[skip:end] * x).add_(second[skip:end], alpha=y).add_(z)
    blocks = range(number, (at.start + at.count - 1) // BLOCK + 1)
    each = torch.tensor(
        [_coefficients(at.seed, block, a, b, c) for block in blocks],
        dtype=torch.int32,
        device=at.device,
    )
    whole = (first * each[:, 0:1]).add_(second * each[:, 1:2]).add_(each[:, 2:3])
    return whole.view(-1)[skip : skip + at.count]


def _coefficients(seed: int, block: int, a: int, b: int, c: int) -> tuple[int, int, int]:
    """The same for the block's words p · first + q and r · second + s, p and r odd."""
    word = mix(seed ^ mix(block + 0x51ED))
    more = mix(word)
    p, q, r, s = word | 1, word >> 32, more | 1, more >> 32
    return signed(a * p), signed(b * r), signed(a * q + b * s + c)


def _number(case: Case, at: Place, multipliers: tuple[int, int, int]) -> torch.Tensor:
    """The integers that a rank contributes, before a float's scale."""
    words = _linear(at, *multipliers)
    if case.dtype == "int32":
        return words
    # The highest bits are the best mixed; keep enough of them for -2^k <= number < 2^k.
    k = PRECISION[case.dtype] - (0 if case.op == "max" else (case.ranks - 1).bit_length())
    return words >> (31 - k)


def _scaled(case: Case, number: torch.Tensor, at: Place, shift: int = 0) -> torch.Tensor:
    table = torch.tensor(
        [2.0 ** (power - shift) for power in _SCALES[case.dtype]],
        dtype=torch.float32,
        device=number.device,
    )
    scale = table[(_linear(at, 0, 1, 0) & 7).to(torch.int64)]
    return scale.mul_(number).to(DTYPES[case.dtype])
