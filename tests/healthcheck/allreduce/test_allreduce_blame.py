"""Which end and which rank, from what was heard and seen; no process is started here."""

import msgspec
import pytest

from healthcheck.allreduce.assess import assess
from healthcheck.allreduce.model import AllreduceEnd as End
from healthcheck.allreduce.shapes import make_plan
from healthcheck.allreduce.told import Seen, Told

PLAN = make_plan("nccl", "quick", 4)
HELLO = ({"t": "hello", "pid": 1}, {"t": "torch", "version": "2.9"})
CALL = "sum bfloat16 536870912 timed"
WAITING = tuple(
    Seen(r, pid=100 + r, phase="bandwidth 1073741824 bytes", call=CALL, entered=30, left=29,
         phases=12, silent_s=0.1, state="S")
    for r in range(4)
)  # fmt: skip


def change(what, **fields):
    return msgspec.structs.replace(what, **fields)


def told(ended="failed", messages=(), seen=WAITING, output=""):
    return Told(ended=ended, messages=(*HELLO, *messages), seen=seen, output=output)


def accused(result):
    return [suspect.rank for suspect in result.suspects]


def with_rank(number, **fields):
    return tuple(change(one, **fields) if one.rank == number else one for one in WAITING)


ABORTED = tuple({"t": "exit", "rank": r, "code": -6} for r in range(4))
WATCHDOG = "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=30)\n"


def test_a_watchdog_that_aborts_everybody_is_a_hang_and_not_four_deaths():
    result = assess(told(messages=ABORTED, output=WATCHDOG), PLAN)
    assert (result.end, accused(result)) == (End.HUNG, [])
    assert "the path between them" in result.reason
    assert result.phase == "bandwidth 1073741824 bytes"


def test_the_rank_that_had_not_come_is_blamed_for_the_watchdogs_aborts():
    seen = with_rank(2, entered=29)
    result = assess(told(messages=ABORTED, output=WATCHDOG, seen=seen), PLAN)
    assert (result.end, accused(result)) == (End.HUNG, [2])


def test_an_abort_without_a_timeout_is_a_death():
    output = "terminate called after throwing: CUDA error: uncorrectable ECC error encountered\n"
    result = assess(told(messages=ABORTED[3:], output=output), PLAN)
    assert (result.end, accused(result)) == (End.DIED, [3])
    assert "SIGABRT" in result.reason
    assert "uncorrectable ECC" in result.log[0]


def test_a_rank_in_the_kernel_is_named_with_its_state():
    seen = with_rank(1, state="D", silent_s=9.0)
    result = assess(told("stalled", seen=seen), PLAN)
    assert (result.end, accused(result)) == (End.HUNG, [1])
    assert "sleeps in the kernel" in result.reason


def test_on_several_nodes_a_hang_with_nobody_here_to_blame_points_away():
    result = assess(told("stalled"), change(PLAN, ranks=8))
    assert result.end is End.HUNG
    assert "another node" in result.reason


def test_ranks_that_never_met_accuse_nobody():
    looking = tuple(
        Seen(r, pid=100 + r, phase="join", phases=2, silent_s=0.1, state="S") for r in range(4)
    )
    result = assess(told("stalled", seen=looking), change(PLAN, ranks=8))
    assert (result.end, result.cause) == (End.COULD_NOT_START, "rendezvous")
    assert "did not meet within" in result.reason


def test_a_rank_that_dies_while_the_ranks_meet_is_still_named():
    looking = tuple(
        Seen(r, pid=100 + r, phase="join", phases=2, silent_s=0.1, state="S") for r in range(4)
    )
    stopped = (change(looking[0], state="T"), *looking[1:])
    result = assess(told("stopped", seen=stopped), PLAN)
    assert (result.end, accused(result)) == (End.HUNG, [0])


def test_peers_that_went_away_are_no_evidence_against_this_node():
    errors = [
        {"t": "error", "kind": "failed", "rank": r, "reason": "Connection closed by peer [::1]:5"}
        for r in range(4)
    ]
    result = assess(told(messages=errors), change(PLAN, ranks=8))
    assert (result.end, accused(result)) == (End.DIED, [])
    assert "went away" in result.reason


def test_who_sends_another_length_is_named_though_everybody_hangs():
    seen = with_rank(3, call="sum bfloat16 1 timed")
    result = assess(told("stalled", seen=seen), PLAN)
    assert (result.end, accused(result)) == (End.CORRUPT, [3])


def test_who_is_further_on_with_fewer_calls_has_skipped_one():
    seen = with_rank(0, entered=29, left=29, phases=13, phase="done")
    result = assess(told("stalled", seen=seen), PLAN)
    assert (result.end, accused(result)) == (End.CORRUPT, [0])
    assert "skipped a step" in result.reason


def test_the_first_cause_of_a_failed_start_is_told():
    errors = [
        {"t": "error", "kind": "start", "cause": "absent", "rank": 0, "reason": "ranks [2] absent"},
        {"t": "error", "kind": "start", "cause": "no-cuda", "rank": 2, "reason": "no device"},
    ]
    result = assess(told(messages=errors), PLAN)
    assert (result.end, result.cause, accused(result)) == (End.COULD_NOT_START, "no-cuda", [2])


@pytest.mark.parametrize(
    ("messages", "cause"),
    [((), "interpreter"), (HELLO[:1], "no-torch"), (HELLO, "no-ranks")],
)
def test_a_child_that_goes_away_before_there_are_ranks(messages, cause):
    gone = Told(ended="gone", messages=messages, seen=())
    result = assess(gone, PLAN)
    assert (result.end, result.cause) == (End.COULD_NOT_START, cause)


def test_an_end_without_every_rank_being_done_is_no_pass():
    done = [{"t": "done", "rank": r} for r in (0, 1, 3)]
    result = assess(told("end", messages=done), PLAN)
    assert result.end is End.UNFINISHED
    assert "[2]" in result.reason


def digest(rank, value, kind="matmul"):
    return {"t": kind, "rank": rank, "dtype": "float32", "size": 64, "seconds": 0.1,
            "digest": value, "digests": [value, value], "what": "random sum"}  # fmt: skip


def done_with(*messages):
    return told("end", messages=(*messages, *({"t": "done", "rank": r} for r in range(4))))


def test_the_gpu_whose_product_differs_from_the_others_is_named():
    result = assess(done_with(*(digest(r, "b" if r == 1 else "a") for r in range(4))), PLAN)
    assert (result.end, accused(result)) == (End.CORRUPT, [1])


def test_products_of_different_gpus_are_not_compared():
    devices = [{"t": "device", "rank": r, "name": f"GPU type {r % 2}"} for r in range(4)]
    products = [digest(r, "b" if r % 2 else "a") for r in range(4)]
    assert assess(done_with(*devices, *products), PLAN).end is End.OK


def test_a_sum_that_differs_on_one_rank_names_it():
    sums = [digest(r, "b" if r == 2 else "a", "digest") for r in range(4)]
    result = assess(done_with(*sums), PLAN)
    assert (result.end, accused(result)) == (End.CORRUPT, [2])
