"""From a stream of bytes to the lines that hold a literal: one pass, bounded memory."""

from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple

from epilog.scan.matcher import Matcher

BLOCK = 1 << 20
MAX_LINE = 64 * 1024
WINDOW = 8 * 1024
"""Bytes kept before and behind a literal in a line longer than MAX_LINE."""
OVERLAP = 4 * 1024


class RawLine(NamedTuple):
    """One line or, of an endless one, the part around its literals. Lines count from 1."""

    number: int
    data: bytes
    literals: tuple[int, ...]


class Watch:
    """Set `lines` to get every following line too, until it is unset (a traceback is open)."""

    lines = False


class Progress:
    """How far a scan has come."""

    bytes_read = 0
    long_lines = 0


def matched_lines(
    stream: BinaryIO, matcher: Matcher, watch: Watch, progress: Progress
) -> Iterator[RawLine]:
    """The lines of `stream` that hold a literal. Raises OSError as reading does."""
    tail, skip, number = b"", 0, 1
    while True:
        chunk = stream.read(BLOCK)
        progress.bytes_read += len(chunk)
        block = tail + chunk if tail else chunk
        end = len(block) if not chunk else block.rfind(b"\n") + 1
        keep = 0
        if chunk and end <= skip:
            if len(block) <= MAX_LINE:
                tail = block
                continue
            end, keep = len(block), OVERLAP  # a line without end: look at it piece by piece
            progress.long_lines += 1
        if end > skip:
            hits = matcher.scan(memoryview(block)[:end])
            if skip:
                hits = [hit for hit in hits if hit[0] > skip]
            if hits or watch.lines:
                number = yield from _lines(block, end, hits, number, watch)
            else:
                number += _newlines(block, end)
        if not chunk:
            return
        tail, skip = block[end - keep :], keep


def _newlines(block: bytes, end: int) -> int:
    """Newlines in block[:end]; there are none behind `end`.

    bytes.count takes one byte at a time; deleting all of them is four times as fast.
    """
    return len(block) - len(block.replace(b"\n", b"")) if end else 0


def _lines(
    block: bytes, end: int, hits: list[tuple[int, int]], number: int, watch: Watch
) -> Generator[RawLine, None, int]:
    """Yield the lines of block[:end] that `hits` or `watch` ask for; return the next number."""
    at, index = 0, 0
    while at < end:
        if watch.lines:
            start = at
        elif index < len(hits):
            start = max(block.rfind(b"\n", at, hits[index][0]) + 1, at)
        else:
            break
        stop = block.find(b"\n", start, end)
        stop = end if stop < 0 else stop
        number += block.count(b"\n", at, start)
        first = index
        while index < len(hits) and hits[index][0] <= stop:
            index += 1
        for begin, finish, literals in _windows(start, stop, hits[first:index]):
            yield RawLine(number, block[begin:finish], literals)
        at = stop + 1
        number += block[stop : stop + 1] == b"\n"
    return number + (block.count(b"\n", at, end) if at < end else 0)


def _windows(
    start: int, stop: int, hits: list[tuple[int, int]]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The whole line, or of a long one the surroundings of each cluster of literals."""
    if stop - start <= MAX_LINE:
        yield start, stop, tuple(dict.fromkeys(literal for _, literal in hits))
        return
    if not hits:
        yield start, start + WINDOW, ()
    index = 0
    while index < len(hits):
        first = index
        while index < len(hits) and hits[index][0] - hits[first][0] <= WINDOW:
            index += 1
        cluster = hits[first:index]
        yield (
            max(start, cluster[0][0] - WINDOW),
            min(stop, cluster[-1][0] + WINDOW),
            tuple(dict.fromkeys(literal for _, literal in cluster)),
        )
