"""The rank map of the task prolog, as the epilog's reader takes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epilog.attribute.places import find_places
from epilog.model import Evidence, JobFacts, RankPlace, Role
from epilog.reader.rank_map import attempt_of, parse_rank_maps

FIRST = "/home/u/flightcheck-7/ranks-0-0-node01.jsonl"


def test_every_rank_has_its_place():
    files = [
        (
            FIRST,
            b'{"rank":0,"host":"node01","local_rank":0,"pid":11,"tasks":2,"gpu_uuid":"GPU-a"}\n',
        ),
        (FIRST.replace("node01", "node02"), b'{"rank":1,"host":"node02","gpu_uuid":null}\n'),
    ]
    assert parse_rank_maps(files) == (
        RankPlace(0, "node01", 0, "GPU-a", 11),
        RankPlace(1, "node02"),
    )


def test_only_the_last_step_of_the_last_attempt_counts():
    def place(attempt, host):
        return (f"/x/ranks-{attempt}-{host}.jsonl", f'{{"rank":0,"host":"{host}"}}'.encode())

    files = [place("0-9", "node01"), place("1-0", "node02"), place("1-2", "node03")]
    assert parse_rank_maps(files) == (RankPlace(0, "node03"),)


def test_what_may_be_a_launcher_is_told_apart():
    (place,) = parse_rank_maps([(FIRST, b'{"label":0,"host":"node01"}\n')])
    assert place == RankPlace(0, "node01", launcher=True)


def seen(*ranks: int) -> list[Evidence]:
    return [
        Evidence("log", n, Role.ROOT, "user/nan", "", rank=rank) for n, rank in enumerate(ranks)
    ]


@pytest.mark.parametrize(
    ("ranks", "torchrun", "known"),
    [((1,), False, {0: "a", 1: "b"}), ((1,), True, {}), ((1, 5), False, {})],
)
def test_a_tasks_number_is_a_rank_only_where_nothing_started_more_ranks(ranks, torchrun, known):
    maps = [RankPlace(0, "a", launcher=True), RankPlace(1, "b", launcher=True)]
    assert find_places(JobFacts(), seen(*ranks), (), maps, torchrun).nodes == known


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"rank":-1,"host":"n"}', b'{"rank":"x","host":"n"}', b'{"rank":1}']
)
def test_odd_lines_are_passed_over(line):
    good = b'{"rank":3,"host":"node01"}'
    assert parse_rank_maps([(FIRST, line + b"\n" + good)]) == (RankPlace(3, "node01"),)


@pytest.mark.parametrize(
    "name", ["ranks-x-0-n.jsonl", "ranks-0-0-n.txt", "other", "ranks-0-0-a b.jsonl"]
)
def test_other_files_are_no_rank_maps(name):
    assert attempt_of(f"/x/{name}") is None


@given(st.binary(max_size=200))
def test_no_bytes_make_it_crash(data):
    parse_rank_maps([(FIRST, data)])
