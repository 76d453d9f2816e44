"""Who issued what: dumps of NCCL ranks, complete and not."""

import importlib.util
import io
import json
import pickle
from pathlib import Path

import pytest

from epilog.classify import Heard, classify
from epilog.model import JobFacts, Role
from epilog.recorder import read_dumps
from epilog.scan import ScanResult

_SPEC = importlib.util.spec_from_file_location(
    "recorder_dumps", Path(__file__).with_name("dumps.py")
)
dumps = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(dumps)
dump, entry, read = dumps.dump, dumps.entry, dumps.read
DATA = Path(__file__).with_name("data")


def world(odd=None, rank=2, ranks=4, steps=3):
    """All ranks wait in the last step; `rank` issued `odd` there."""
    healthy = [entry(n) for n in range(1, steps)]
    by_rank = {
        r: dump([*healthy, entry(steps, done=False)], ranks=range(ranks)) for r in range(ranks)
    }
    if odd is not None:
        by_rank[rank] = dump([*healthy, odd], ranks=range(ranks))
    return by_rank


def desync(result):
    return [e for e in result.evidence if e.klass == "user/desync"]


@pytest.mark.parametrize(
    ("odd", "kind", "words"),
    [
        (entry(3, size=7, done=False), "size", "all_reduce of [7] Float"),
        (entry(3, dtype="Double", done=False), "dtype", "all_reduce of [10] Double"),
        (entry(3, op="nccl:broadcast", done=False), "op", "broadcast of [10] Float"),
    ],
)
@pytest.mark.parametrize("rank", [0, 2, 3])
def test_the_odd_rank_is_named_and_the_first_is_not_taken_for_innocent(odd, kind, words, rank):
    (found,) = desync(read(world(odd, rank)))
    assert found.signature == f"flight-recorder-{kind}"
    assert found.rank == rank
    assert found.fields["culprits"] == str(rank)
    assert found.role is Role.ROOT
    assert words in found.text
    assert "3 other(s) issued all_reduce of [10] Float" in found.text
    assert "step /home/u/train.py:43" in found.text
    assert found.file == f"nccl_trace_rank_{rank}"


def test_where_two_stand_against_two_nobody_is_named():
    by_rank = world(entry(3, size=7, done=False), 2)
    by_rank[3] = by_rank[2]
    (found,) = desync(read(by_rank))
    assert "a tie" in found.text
    assert found.rank is None
    assert "culprits" not in found.fields


def test_a_step_left_out_is_an_order_and_not_just_another_operation():
    ahead = [entry(1), entry(2), entry(3, op="nccl:broadcast", done=False)]
    by_rank = {
        r: dump(
            [entry(1), entry(2), entry(3, done=False), entry(4, op="nccl:broadcast", done=False)]
        )
        for r in (0, 1, 3)
    }
    by_rank[2] = dump(ahead)
    (found,) = desync(read(by_rank))
    assert found.signature == "flight-recorder-order"
    assert found.rank == 2


def test_another_shape_of_as_many_elements_is_no_mismatch():
    assert (
        desync(read(world(entry(3, done=False, input_sizes=[[2, 5]], output_sizes=[[5, 2]])))) == []
    )


@pytest.mark.parametrize(
    "op", ["nccl:all_to_all", "nccl:gather", "nccl:scatter", "nccl:all_gather"]
)
def test_operations_that_may_be_uneven_are_not_compared(op):
    by_rank = {r: dump([entry(1, op=op, size=r + 1, done=False)]) for r in range(4)}
    assert desync(read(by_rank)) == []


def test_what_completed_everywhere_did_no_harm():
    by_rank = {r: dump([entry(1, size=10 + r), entry(2, done=False)]) for r in range(4)}
    assert desync(read(by_rank)) == []


def test_the_rank_that_is_behind_is_told_and_its_place_recorded():
    by_rank = world()
    by_rank[1] = dump([entry(1)])
    result = read(by_rank)
    (found,) = [e for e in result.evidence if e.signature == "flight-recorder-behind"]
    assert (found.rank, found.role) == (1, Role.SYMPTOM)
    assert found.fields["enqueued"] == "1"
    assert "last call before was all_reduce at step /home/u/train.py:41" in found.text
    works = {w.rank: w for w in result.works}
    assert (works[1].enqueued, works[1].completed) == (1, 1)
    assert (works[0].enqueued, works[0].completed, works[0].op) == (3, 2, "all_reduce")
    assert works[0].timeout_ms == 600_000
    assert works[0].numel_in == 10
    assert works[0].stack[-1] == "step /home/u/train.py:43"


def test_a_rank_that_wakes_up_when_the_others_have_given_up_is_behind():
    """Its dump looks like theirs, but for the time."""
    begin = 1_796_000_000_000_000_000
    by_rank = world()
    slow = entry(3, done=False, time_created_ns=begin + 700 * 10**9)
    by_rank[2] = dump([entry(1), entry(2), slow])
    result = read(by_rank)
    (found,) = [e for e in result.evidence if e.signature == "flight-recorder-behind"]
    assert found.rank == 2
    assert "it came 700 s later, too late" in found.text
    assert {w.rank: w.enqueued for w in result.works} == {0: 3, 1: 3, 2: 2, 3: 3}


def test_a_rank_that_is_only_slow_is_not_behind():
    begin = 1_796_000_000_000_000_000
    by_rank = world()
    slow = entry(3, done=False, time_created_ns=begin + 500 * 10**9)
    by_rank[2] = dump([entry(1), entry(2), slow])
    assert read(by_rank).evidence == ()


def test_the_rank_without_a_dump_is_the_missing_one():
    by_rank = world()
    del by_rank[2]
    (found,) = read(by_rank).evidence
    assert found.signature == "flight-recorder-missing"
    assert found.rank is None
    assert found.fields["absent"] == "2"
    assert found.fields["nranks"] == "4"


def test_a_status_beyond_the_ring_buffer_counts():
    by_rank = world()
    by_rank[0]["pg_status"]["0"]["last_enqueued_collective"] = 9
    assert {w.rank: w.enqueued for w in read(by_rank).works}[0] == 9


def test_groups_of_one_name_and_other_members_do_not_mix():
    """Pipelines build groups by themselves, and their names repeat."""
    by_rank = {}
    for r in range(4):
        pair = [0, 1] if r < 2 else [2, 3]
        config = {"7": {"name": "7", "desc": "pp", "ranks": str(pair)}}
        op = "nccl:all_reduce" if r < 2 else "nccl:broadcast"
        by_rank[r] = dump([entry(1, op=op, group="7", done=False)], config=config)
    result = read(by_rank)
    assert desync(result) == []
    assert {w.group for w in result.works} == {"7@0", "7@2"}


def test_a_pending_receive_names_the_peer_as_a_global_rank():
    waiting = entry(1, op="nccl:recv 0<-1", done=False, group="9", is_p2p=True, p2p_seq_id=3)
    config = {"9": {"name": "9", "desc": "pp", "ranks": "[4, 6]"}}
    (found,) = [
        e
        for e in read({4: dump([waiting], config=config)}).evidence
        if e.signature == "flight-recorder-p2p"
    ]
    assert found.fields["peer_rank"] == "6"
    assert found.rank == 4


def test_coalesced_operations_are_compared_as_one():
    group = [entry(1, done=False, op_id=1), entry(1, done=False, op_id=2, size=3)]
    by_rank = {r: dump(group) for r in range(4)}
    assert desync(read(by_rank)) == []
    by_rank[3] = dump(group[:1])
    (found,) = desync(read(by_rank))
    assert found.rank == 3


OLD = {
    "2.3: seq_id, ranks as a list": lambda d: {
        **d,
        "version": "1.5",
        "pg_config": {"0": [0, 1, 2, 3]},
        "entries": [
            {
                **{k: v for k, v in e.items() if k != "collective_seq_id"},
                "seq_id": e["collective_seq_id"],
            }
            for e in d["entries"]
        ],
    },
    "2.4: no status": lambda d: (
        {k: v for k, v in d.items() if k != "pg_status"} | {"version": "2.2"}
    ),
    "a list of entries alone": lambda d: d["entries"],
    "a rank of its own": lambda d: {**d, "rank": 5},
}


@pytest.mark.parametrize("form", OLD)
def test_forms_of_other_releases_are_understood(form):
    by_rank = {r: OLD[form](d) for r, d in world(entry(3, size=7, done=False)).items()}
    result = read(by_rank)
    if form == "a rank of its own":
        assert {w.rank for w in result.works} == {5}
        return
    (found,) = desync(result)
    assert found.rank == 2
    assert {w.enqueued for w in result.works} == {3}


@pytest.mark.parametrize(
    "name", ["nccl_trace_rank_{}", "trace_{}.json", "fr/comm_lib_trace_rank_{}.pkl"]
)
def test_json_and_every_pickle_protocol_give_the_same(name):
    by_rank = world(entry(3, size=7, done=False))
    expected = read(by_rank, name=name)
    assert desync(expected)
    for protocol in (2, 3, 4, 5):
        assert read(by_rank, lambda d, p=protocol: pickle.dumps(d, p), name) == expected
    assert desync(read(by_rank, lambda d: json.dumps(d).encode(), name)) == desync(expected)


REAL = {
    "op": ("flight-recorder-op", 2),
    "dtype": ("flight-recorder-dtype", 2),
    "behind": ("flight-recorder-behind", 2),
    "dead": ("flight-recorder-missing", None),
    "json": ("flight-recorder-op", 2),
}


@pytest.mark.parametrize("case", REAL)
def test_real_dumps_of_gloo(case):
    """Recorded with torch 2.13 on four ranks; rank 2 was made to fail. In `dtype` rank 1 crashed
    of it and left no dump, but did nothing wrong."""
    folder = DATA / f"torch-2.13-gloo-{case}"
    files = [(p.name, io.BytesIO(p.read_bytes())) for p in sorted(folder.iterdir())]
    result = read_dumps(files)
    assert result.notes == ()
    first = result.evidence[0]
    assert (first.signature, first.rank) == REAL[case]
    if case == "dead":
        assert first.fields["absent"] == "2"


@pytest.mark.parametrize("case", REAL)
def test_attribution_finds_the_rank_from_real_dumps_alone(case):
    folder = DATA / f"torch-2.13-gloo-{case}"
    files = [(p.name, io.BytesIO(p.read_bytes())) for p in sorted(folder.iterdir())]
    heard = read_dumps(files)
    answer = classify(
        JobFacts(job_id=1, exit_code=1), ScanResult(), Heard(heard.evidence, heard.works)
    )
    assert answer.root.ranks == (2,), answer
    assert answer.klass in ("user/desync", "unknown/hang")
    assert answer.drain.value == "no"
