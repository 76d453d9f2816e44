"""Comparisons that failed: told by a rank about itself, or seen across the ranks."""

from collections import Counter
from typing import Any

from healthcheck.allreduce.model import WrongBits
from healthcheck.allreduce.told import Told

MAX_WRONG = 512


def wrong_bits(told: Told) -> tuple[WrongBits, ...]:
    """All of them, in the order they were told."""
    found = [_told(message) for message in told.of("wrong")]
    found += [_product(message) for message in told.of("matmul") if message.get("wrong")]
    found += _repeats(told)
    found += _odd_digests(told)
    return tuple(found[:MAX_WRONG])


def _told(message: dict[str, Any]) -> WrongBits:
    return WrongBits(
        rank=message["rank"],
        where=message["where"],
        op=message["op"],
        dtype=message["dtype"],
        case=message["case"],
        count=message["wrong"],
        not_finite=message.get("infinite", 0),
        first_index=message.get("index"),
        got=message.get("got"),
        expected=message.get("want"),
        xor=message.get("xor"),
        bits=16 if message["dtype"] in ("float16", "bfloat16") else 32,
        inverted=message.get("inverted"),
    )


def _product(message: dict[str, Any]) -> WrongBits:
    """A matrix product that fails its own checksum."""
    return WrongBits(
        rank=message["rank"],
        where="matmul",
        op="matmul",
        dtype=message["dtype"],
        case=f"{message['size']} × {message['size']}",
        count=message["wrong"],
        first_index=message.get("column"),
        detail=f"column sums differ: {message.get('got')} where {message.get('want')} is right",
    )


def _repeats(told: Told) -> list[WrongBits]:
    return [
        WrongBits(rank=m["rank"], where="repeat", op="sum", dtype="float32", case=m["what"],
                  count=1, detail=f"digests {' and '.join(m['digests'])}")
        for m in told.of("digest")
        if len(set(m["digests"])) > 1
    ]  # fmt: skip


def _odd_digests(told: Told) -> list[WrongBits]:
    """Ranks whose random sum, or whose matrix product on the same kind of GPU, is not the others'.

    Where no value has a majority, all of them are told: one of them is wrong.
    """
    kinds = {m["rank"]: m.get("name") for m in told.of("device")}
    groups: dict[tuple[object, ...], dict[int, str]] = {}
    for m in told.of("matmul"):
        key = ("matmul", m["dtype"], f"{m['size']} × {m['size']}", kinds.get(m["rank"]))
        groups.setdefault(key, {})[m["rank"]] = m["digest"]
    for m in told.of("digest"):
        groups.setdefault(("sum", "float32", m["what"], None), {})[m["rank"]] = m["digests"][0]
    odd = []
    for (op, dtype, case, _), digests in groups.items():
        right, votes = Counter(digests.values()).most_common(1)[0]
        if votes == len(digests):
            continue
        majority = votes * 2 > len(digests)
        odd += [
            WrongBits(rank=rank, where="digest", op=str(op), dtype=str(dtype), case=str(case),
                      count=1, detail=f"digest {own}, {votes} of {len(digests)} ranks have {right}")
            for rank, own in digests.items()
            if own != right or not majority
        ]  # fmt: skip
    return odd
