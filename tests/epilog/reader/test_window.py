"""The head and the tail of large files."""

import io

import pytest

from epilog.reader.window import Window


def whole(window, size=-1):
    parts = []
    while chunk := window.read(size):
        parts.append(chunk)
    return b"".join(parts)


def test_a_small_file_is_read_as_it_is():
    window = Window(io.BytesIO(b"abc"), 3, 10)
    assert whole(window) == b"abc"
    assert window.cut == 0


@pytest.mark.parametrize("size", [-1, 1, 7, 4096])
def test_of_a_large_file_head_and_tail_are_read_and_the_cut_is_said(size):
    data = b"H" * 25 + b"m" * 900 + b"T" * 75
    window = Window(io.BytesIO(data), len(data), 100)
    text = whole(window, size)
    assert text.startswith(b"H" * 25 + b"\n[flightcheck: 900 bytes left out here]\n")
    assert text.endswith(b"T" * 75)
    assert b"m" not in text


def test_a_file_that_grows_has_an_end_all_the_same():
    assert whole(Window(io.BytesIO(b"abcdef"), 3, 100)) == b"abc"


def test_a_file_that_shrinks_ends_early():
    assert whole(Window(io.BytesIO(b"ab"), 1000, 100)).startswith(b"ab")
