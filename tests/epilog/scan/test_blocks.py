import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epilog.scan import blocks
from epilog.scan.blocks import Progress, Watch, matched_lines
from epilog.scan.matcher import FindMatcher, HyperscanMatcher, literal_table, make_matcher
from epilog.signatures import load

LITERALS = [b"needle one", b"needle two"]


class Drips(io.RawIOBase):
    """A stream that gives at most `step` bytes at a time, as pipes do."""

    def __init__(self, data, step):
        self._data, self._step, self._at = data, step, 0

    def readable(self):
        return True

    def read(self, size=-1):
        piece = self._data[self._at : self._at + min(self._step, size)]
        self._at += len(piece)
        return piece


def lines_of(data, step=1 << 20, literals=LITERALS):
    found = matched_lines(Drips(data, step), FindMatcher(literals), Watch(), Progress())
    return [(line.number, line.data, line.literals) for line in found]


def expected(data, literals=LITERALS):
    wanted = []
    for number, line in enumerate(data.split(b"\n"), 1):
        ends = sorted(
            (at + len(literal), index)
            for index, literal in enumerate(literals)
            for at in range(len(line))
            if line.startswith(literal, at)
        )
        if ends:
            wanted.append((number, line, tuple(dict.fromkeys(index for _, index in ends))))
    return wanted


PIECES = st.lists(
    st.sampled_from([b"needle one", b"needle two", b"\n", b"\r", b"\0", b"x", b"needle ", b"\n\n"]),
    max_size=40,
)


@given(PIECES, st.integers(1, 64))
@settings(deadline=None)
def test_lines_and_numbers_are_right_however_the_bytes_arrive(pieces, step):
    data = b"".join(pieces)
    assert lines_of(data, step) == expected(data)


def test_a_last_line_without_newline_is_seen():
    assert lines_of(b"a\nb\nneedle one") == [(3, b"needle one", (0,))]


def test_line_numbers_are_right_far_into_a_file():
    data = b"healthy line\n" * 300_000 + b"a needle one\n" + b"healthy\n" * 9 + b"needle two"
    assert [number for number, _, _ in lines_of(data)] == [300_001, 300_011]


def test_of_a_long_line_only_the_surroundings_are_kept():
    data = b"a\n" + b"x" * 300_000 + b"needle one" + b"y" * 300_000 + b"needle two\nneedle one\n"
    found = lines_of(data)
    assert [(number, literals) for number, _, literals in found] == [
        (2, (0,)),
        (2, (1,)),
        (3, (0,)),
    ]
    assert max(len(line) for _, line, _ in found) < 3 * blocks.WINDOW


@pytest.mark.parametrize("step", [4096, 70_000, 1 << 20])
def test_a_line_without_end_is_read_in_pieces_and_each_literal_seen_once(step):
    data = b"".join(b"z" * 99_991 + b"needle one" for _ in range(30)) + b"\nneedle two\n"
    found = lines_of(data, step)
    assert [number for number, _, _ in found] == [1] * 30 + [2]
    assert found[-1] == (2, b"needle two", (1,))


def test_memory_is_bounded_on_a_line_without_end():
    progress = Progress()
    stream = Drips(b"q" * 20_000_000, 1 << 20)
    assert list(matched_lines(stream, FindMatcher(LITERALS), Watch(), progress)) == []
    assert (progress.bytes_read, progress.long_lines > 0) == (20_000_000, True)


def test_an_open_watch_gets_every_following_line():
    watch, seen = Watch(), []
    data = b"needle one\nplain 1\n\nplain 2\nplain 3\n"
    for line in matched_lines(io.BytesIO(data), FindMatcher(LITERALS), watch, Progress()):
        seen.append((line.number, line.data))
        watch.lines = line.number < 4
    assert seen == [(1, b"needle one"), (2, b"plain 1"), (3, b""), (4, b"plain 2")]


CATALOGUE = load()
TABLE, _ = literal_table([s.triggers for s in CATALOGUE.signatures])
ENGINES = (FindMatcher(TABLE), HyperscanMatcher(TABLE))


def test_both_engines_find_the_same_in_every_example():
    data = "\n".join(s.example for s in CATALOGUE.signatures).encode()
    first, second = (engine.scan(memoryview(data)) for engine in ENGINES)
    assert first == second
    assert len(first) > len(CATALOGUE.signatures)


@given(st.lists(st.sampled_from([*TABLE, b" ", b"\n", b"\xff", b"\0", b"er"]), max_size=30))
@settings(deadline=None)
def test_both_engines_find_the_same_in_anything(pieces):
    data = b"".join(pieces)
    assert ENGINES[0].scan(memoryview(data)) == ENGINES[1].scan(memoryview(data))


def test_small_logs_do_not_wait_for_hyperscan_and_a_machine_without_it_still_works(monkeypatch):
    assert isinstance(make_matcher(LITERALS, 1000), FindMatcher)
    assert isinstance(make_matcher(LITERALS, None), HyperscanMatcher)
    monkeypatch.setitem(__import__("sys").modules, "hyperscan", None)
    assert isinstance(make_matcher(LITERALS, None), FindMatcher)
