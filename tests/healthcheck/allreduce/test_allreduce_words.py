"""The numbers that ranks contribute: exact in any order, every bit used, the same everywhere."""

import pytest

torch = pytest.importorskip("torch")

from healthcheck.allreduce.worker import integrity, words  # noqa: E402
from healthcheck.allreduce.worker.words import Case, contribution, expected  # noqa: E402

N = 2048
CASES = [
    (op, dtype, ranks)
    for op in ("sum", "max", "avg")
    for dtype in words.DTYPES
    for ranks in (2, 3, 4, 7, 8, 16, 128)
    if words.inexact(op, dtype, ranks) is None
]


def wide(case):
    """The right result by arithmetic that cannot round: int64 and float64."""
    parts = torch.stack([contribution(case, r, 0, N, "cpu") for r in range(case.ranks)])
    if case.dtype == "int32":
        total = parts.to(torch.int64)
        total = total.sum(0) if case.op == "sum" else total.max(0).values
        return ((total + 2**31) % 2**32 - 2**31).to(torch.int32)
    total = parts.double()
    total = {"sum": total.sum(0), "max": total.max(0).values, "avg": total.mean(0)}[case.op]
    narrow = total.to(words.DTYPES[case.dtype])
    assert torch.equal(narrow.double(), total), "the type holds the result without rounding"
    return narrow


@pytest.mark.parametrize(("op", "dtype", "ranks"), CASES)
def test_the_expected_result_is_exact(op, dtype, ranks):
    case = Case(op, dtype, N, 12345, ranks)
    assert torch.equal(expected(case, 0, N, "cpu"), wide(case))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_floats_add_to_the_same_bits_in_any_order(dtype):
    case = Case("sum", dtype, N, 99, 8)
    parts = [contribution(case, r, 0, N, "cpu") for r in range(8)]
    for order in ([0, 1, 2, 3, 4, 5, 6, 7], [7, 3, 5, 1, 0, 2, 6, 4], [4, 2, 0, 6, 1, 3, 7, 5]):
        total = parts[order[0]].clone()
        for rank in order[1:]:
            total += parts[rank]
        assert torch.equal(total, expected(case, 0, N, "cpu"))


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_every_bit_of_every_word_toggles(ranks):
    case = Case("sum", "int32", N, 5, ranks)
    for part in (*(contribution(case, r, 0, N, "cpu") for r in range(ranks)),
                 expected(case, 0, N, "cpu")):  # fmt: skip
        ones = torch.stack([(part >> bit) & 1 for bit in range(32)]).sum(1)
        assert int(ones.min()) > 0.4 * N
        assert int(ones.max()) < 0.6 * N


def test_a_part_is_the_same_as_that_part_of_the_whole():
    case = Case("sum", "float32", N, 3, 4)
    whole = expected(case, 0, N, "cpu")
    assert torch.equal(expected(case, 700, 100, "cpu"), whole[700:800])


@pytest.mark.parametrize("inverted", [-1, 0, 2])
def test_the_sum_with_one_ranks_bits_inverted_is_known(inverted):
    case = Case("sum", "int32", N, 3, 4, inverted)
    assert torch.equal(expected(case, 0, N, "cpu"), wide(case))
    plain = contribution(case._replace(inverted=None), 2, 0, N, "cpu")
    assert torch.equal(contribution(case, 2, 0, N, "cpu"), ~plain if inverted == 2 else plain)


@pytest.mark.parametrize("dtype", list(words.DTYPES))
def test_one_flipped_bit_is_found_where_it_is(dtype):
    case = Case("sum", dtype, N, 8, 4)
    tensor = expected(case, 0, N, "cpu").clone()
    bits = tensor.view(words.BITS[dtype])
    bits[1234] ^= 1 << 9
    found = integrity.examine(case, tensor, lambda *at: expected(case, *at))
    assert (found["wrong"], found["index"], found["xor"]) == (1, 1234, 1 << 9)


def test_poison_that_nobody_overwrote_is_wrong_everywhere():
    case = Case("sum", "int32", N, 8, 4)
    found = integrity.examine(case, integrity.buffer(case, "cpu"), lambda *at: expected(case, *at))
    assert found["wrong"] == N


@pytest.mark.parametrize(
    ("op", "dtype", "ranks", "word"),
    [("avg", "float32", 6, "not exact"), ("avg", "int32", 8, "rounded"),
     ("sum", "bfloat16", 200, "no exact sum"), ("sum", "float16", 2000, "no exact sum")],
)  # fmt: skip
def test_what_would_round_is_not_compared_and_says_why(op, dtype, ranks, word):
    assert word in words.inexact(op, dtype, ranks)


def test_a_digest_depends_on_every_bit_and_its_place():
    tensor = words.uniform(1, N, "cpu")
    changed = tensor.clone()
    changed.view(torch.int32)[77] ^= 1
    swapped = tensor.clone()
    swapped[[3, 4]] = tensor[[4, 3]]
    digests = {integrity.digest(t) for t in (tensor, changed, swapped)}
    assert len(digests) == 3
