"""Verified all_reduces: every element of every result against what it must be, bit by bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch  # noqa: TID251 - this is the child that may

from . import words
from .collective import Collective
from .words import Case

CHUNK = {"cpu": 1 << 18, "cuda": 1 << 26}
"""Elements at a time: on a CPU what its caches hold."""
BATCH = {"cpu": 64 << 20, "cuda": 4 << 30}
"""Bytes of buffers that are filled before the first of them is reduced."""
POISON = 0x5A5A5A5A
MAX_ROUNDS = 64
"""Ranks tried one by one as the sender of wrong data."""

Send = Callable[..., None]


def buffer(case: Case, device: Any) -> torch.Tensor:
    """A tensor full of poison, so that what nobody wrote is seen as wrong."""
    bits = words.BITS[case.dtype]
    poison = words.signed(POISON) if bits is torch.int32 else POISON & 0x7FFF
    return torch.full((case.elements,), poison, dtype=bits, device=device).view(
        words.DTYPES[case.dtype]
    )


def fill(case: Case, rank: int, tensor: torch.Tensor) -> torch.Tensor:
    """Write this rank's contribution; returns the tensor to send."""
    for start, part in _parts(case, tensor):
        part.copy_(words.contribution(case, rank, start, part.numel(), part.device))
    return tensor


def examine(case: Case, tensor: torch.Tensor, right: Callable[..., torch.Tensor]) -> dict[str, Any]:
    """{} where every bit is right; else how many elements differ, the first, and how."""
    bits = words.BITS[case.dtype]
    wrong = infinite = 0
    first: dict[str, Any] = {}
    for start, part in _parts(case, tensor):
        want = right(start, part.numel(), part.device).view(bits)
        got = part.view(bits)
        if torch.equal(got, want):
            continue
        differs = got.ne(want)
        wrong += int(differs.count_nonzero())
        if part.is_floating_point():
            infinite += int(part.isfinite().logical_not_().count_nonzero())
        if not first:
            index = int(differs.to(torch.uint8).argmax())
            width = 32 if bits is torch.int32 else 16
            a, b = (int(v[index]) & ((1 << width) - 1) for v in (got, want))
            first = {"index": start + index, "got": a, "want": b, "xor": a ^ b}
    if tensor.numel() != case.elements:
        wrong += abs(case.elements - tensor.numel())
        first = first or {
            "index": min(tensor.numel(), case.elements),
            "got": 0,
            "want": 0,
            "xor": 0,
        }
    return {"wrong": wrong, "infinite": infinite, **first} if wrong else {}


def run_batch(ranks: Collective, cases: list[Case], send: Send) -> list[bool]:
    """Verified all_reduces, told by `send`; for each whether all of it was right here.

    All buffers are filled before the first all_reduce and compared after the last: where ranks
    share CPUs, a collective between two pieces of work waits for everybody's time slice.
    """
    tensors, right = [], []
    for case in cases:
        ranks.slot.in_phase("filling " + case.name)
        tensor = fill(case, ranks.rank, buffer(case, ranks.device))
        sent = examine(case, tensor, _own(case, ranks.rank))
        if sent:
            _tell(send, case, "contribution", sent)
        tensors.append(tensor)
        right.append(not sent)
    for case, tensor in zip(cases, tensors):  # noqa: B905 - of Python 3.10, and torch runs on 3.9
        ranks.slot.in_phase("integrity " + case.name)
        ranks.all_reduce(tensor, case.op)
    for number, case in enumerate(cases):
        ranks.slot.in_phase("comparing " + case.name)
        got = examine(case, tensors[number], _expected(case))
        if got:
            _tell(send, case, "result" if case.inverted is None else "inverted", got)
            right[number] = False
        send("case", case=case.name, extra=case.inverted is not None)
    return right


def _own(case: Case, rank: int) -> Callable[..., torch.Tensor]:
    return lambda *at: words.contribution(case, rank, *at)


def _expected(case: Case) -> Callable[..., torch.Tensor]:
    return lambda *at: words.expected(case, *at)


def _tell(send: Send, case: Case, where: str, found: dict[str, Any]) -> None:
    send("wrong", case=case.name, op=case.op, dtype=case.dtype, where=where,
         inverted=case.inverted, **found)  # fmt: skip


def batches(cases: list[Case], most: int) -> list[list[Case]]:
    """The cases in their order, as many together as fit into `most` bytes; at least one."""
    groups: list[list[Case]] = []
    room = 0
    for case in cases:
        room -= _bytes(case)
        if room < 0:
            groups.append([])
            room = most - _bytes(case)
        groups[-1].append(case)
    return groups


def run_all(ranks: Collective, cases: list[Case], send: Send, wait_s: float) -> None:
    """All cases; where any rank saw a wrong bit, rounds that find its sender after that."""
    right: list[bool] = []
    for group in batches(cases, BATCH[ranks.device.type]):
        right += run_batch(ranks, group, send)
    bad = [number for number, good in enumerate(right) if not good]
    ranks.slot.in_phase("exchange of results")
    told = json.dumps({"bad": bad[:64], "entered": ranks.slot.entered})
    everyone = [json.loads(text) for text in ranks.exchange(told, wait_s)]
    entered = [one["entered"] for one in everyone]
    if len(set(entered)) > 1:
        # The collectives no longer pair up, so nothing that follows would mean anything.
        send("entered", counts=entered[:256])
        return
    worst = sorted({number for one in everyone for number in one["bad"]})
    if worst:
        find_sender(ranks, cases[worst[0]].elements, cases[worst[0]].seed, send)


def find_sender(ranks: Collective, count: int, seed: int, send: Send) -> None:
    """The same words again and again, each time with another rank's bits inverted.

    An error that a rank's data take on the way changes the sum by what it does to those bits. It
    is the same in every round but the one in which that rank sends the inverse.
    """
    for rank in range(-1, min(ranks.ranks, MAX_ROUNDS)):
        case = Case("sum", "int32", count, words.mix(seed), ranks.ranks, rank)
        run_batch(ranks, [case], send)


def repeatable(ranks: Collective, count: int, seed: int, send: Send) -> None:
    """The same random floats reduced twice: the digests must agree, here and on every rank."""
    ranks.slot.in_phase("determinism")
    tensor = words.uniform(words.mix(seed + ranks.rank), count, ranks.device)
    both = [tensor, tensor.clone()]
    for one in both:
        ranks.all_reduce(one, "sum")
    digests = [digest(one) for one in both]
    send("digest", what="random sum", digests=digests)


def digest(tensor: torch.Tensor) -> str:
    """Sixteen hex digits that depend on every bit and its place; sums of int64 wrap around."""
    bits = torch.int32 if tensor.element_size() == 4 else torch.int16
    flat = tensor.reshape(-1).view(bits)
    total = 0
    for start, part in _slices(flat):
        place = torch.arange(part.numel(), dtype=torch.int64, device=part.device)
        mixed = (place + start).mul_(-7046029254386353131).bitwise_or_(1)
        total = (total + int(mixed.mul_(part).sum())) & (1 << 64) - 1
    return f"{total:016x}"


def _bytes(case: Case) -> int:
    return case.elements * (4 if words.BITS[case.dtype] is torch.int32 else 2)


def _parts(case: Case, tensor: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
    return _slices(tensor.reshape(-1)[: case.elements])


def _slices(flat: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
    step = CHUNK[flat.device.type]
    return [(start, flat[start : start + step]) for start in range(0, flat.numel(), step)]
