"""Each fault is found, called by its right name, and blamed on the right rank."""

import msgspec
import pytest

from healthcheck.allreduce.model import AllreduceEnd as End
from healthcheck.allreduce.model import AllreduceResult
from healthcheck.allreduce.shapes import make_plan

VICTIM = 2


def accused(result):
    return [suspect.rank for suspect in result.suspects]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_healthy_ranks_agree(fly, ranks):
    result = fly(ranks=ranks)
    assert (result.end, result.reason) == (End.OK, None), result
    assert len(result.members) == ranks
    assert {m.left for m in result.members} == {result.members[0].entered}
    assert result.bandwidth[0].bytes == 1 << 20
    assert result.bandwidth[0].busbw_gb_s > 0
    assert len(result.cases) == 7
    assert result.skipped == ("avg float32 65536: gloo has no AVG",)
    assert len(result.compute) == ranks
    assert result.nodes == ("node01",) * ranks


def test_the_data_are_fresh_each_time():
    seeds = {make_plan("gloo", "quick", 2).seed for _ in range(20)}
    assert len(seeds) == 20
    assert make_plan("gloo", "quick", 2, seed=7).message()["seed"] == 7


def test_a_flipped_bit_in_what_a_rank_sends_is_found_there(fly):
    result = fly(f"contribution:{VICTIM}")
    assert result.end is End.CORRUPT
    assert accused(result) == [VICTIM]
    own = [w for w in result.wrong if w.where == "contribution"]
    assert {w.rank for w in own} == {VICTIM}
    assert (own[0].op, own[0].dtype, own[0].count, own[0].first_index) == ("sum", "float32", 1, 700)
    assert own[0].xor == 1 << 7
    again = msgspec.json.decode(msgspec.json.encode(result), type=AllreduceResult)
    assert again == result, "a result goes through JSON unchanged"


def test_a_bit_that_flips_on_the_way_names_the_sender(fly):
    """Every rank gets the same wrong sum; inverting one rank's bits at a time tells whose it is."""
    result = fly(f"sent:{VICTIM}")
    assert result.end is End.CORRUPT
    assert {w.rank for w in result.wrong if w.where == "result"} == {0, 1, 2, 3}
    assert accused(result) == [VICTIM]
    assert "arrive wrong at every rank" in result.suspects[0].why


def test_a_bit_that_flips_in_one_result_names_the_receiver(fly):
    result = fly(f"result:{VICTIM}")
    assert result.end is End.CORRUPT
    assert {w.rank for w in result.wrong} == {VICTIM}
    assert accused(result) == [VICTIM]
    first = result.wrong[0]
    assert (first.first_index, first.xor, first.count) == (700, 1 << 3, 1)


def test_a_nan_is_found(fly):
    result = fly(f"nan:{VICTIM}")
    assert result.end is End.CORRUPT
    assert accused(result) == [VICTIM]
    assert any(w.not_finite for w in result.wrong)


def test_a_wrong_matrix_product_names_the_rank(fly):
    result = fly(f"matmul:{VICTIM}")
    assert result.end is End.CORRUPT
    assert accused(result) == [VICTIM]
    assert {w.where for w in result.wrong} == {"matmul", "digest"}


def test_a_late_rank_is_the_slowest(fly):
    result = fly(f"late:{VICTIM}")
    assert result.end is End.OK
    assert result.bandwidth[0].slowest_rank == VICTIM
    assert 0.3 < result.bandwidth[0].late_s < 0.6


def test_a_killed_rank_died(fly):
    result = fly(f"killed:{VICTIM}")
    assert result.end is End.DIED
    assert accused(result) == [VICTIM]
    assert "SIGKILL" in result.reason
    assert result.member(VICTIM).exit_code == -9


def test_a_stopped_rank_hangs_and_is_named_with_its_phase(fly):
    result = fly(f"stopped:{VICTIM}", within=30)
    assert result.end is End.HUNG
    assert accused(result) == [VICTIM]
    assert "is stopped" in result.reason
    assert result.phase.startswith("integrity ")


def test_a_rank_that_never_comes_to_the_collective_is_named(fly):
    result = fly(f"asleep:{VICTIM}", within=30)
    assert result.end is End.HUNG
    assert accused(result) == [VICTIM]
    assert "has not come to collective" in result.reason


def test_a_wrong_shape_names_the_rank(fly):
    result = fly(f"shape:{VICTIM}", within=30)
    assert result.end is End.CORRUPT
    assert accused(result) == [VICTIM]
    assert "where the others sent" in result.reason


def test_a_skipped_step_names_the_rank(fly):
    result = fly(f"skipped:{VICTIM}", within=30)
    assert result.end is End.CORRUPT
    assert accused(result) == [VICTIM]


def test_a_cuda_error_of_one_rank_is_its_own(fly):
    result = fly(f"raises:{VICTIM}", within=30)
    assert result.end is End.DIED
    assert accused(result) == [VICTIM]
    assert "uncorrectable ECC" in result.reason
