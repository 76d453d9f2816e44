"""From a stream of bytes to the lines that hold a literal: one pass, bounded memory."""

from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple

from epilog.scan.matcher import Matcher

BLOCK = 1 << 18
"""Bytes read at once: with its lines it stays in a core's own cache (L2)."""
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
    last: tuple[bytes, bytes] = (b"", b"")
    """The last two pieces that were read: together they hold the end of the stream."""


def matched_lines(
    stream: BinaryIO, matcher: Matcher, watch: Watch, progress: Progress
) -> Iterator[RawLine]:
    """The lines of `stream` that hold a literal. Raises OSError as reading does."""
    number = 1
    for block, start, end, seen in _blocks(stream, progress):
        hits = matcher.scan(memoryview(block)[start:end])
        if start or seen:
            hits = [(at + start, literal) for at, literal in hits if at + start > seen]
        if hits or watch.lines:
            number = yield from _lines(block, start, end, hits, number, watch)
        else:
            # bytes.count takes one byte at a time: deleting them all is twice as fast. None stands
            # behind `end`, and before `start` only the one that ends the line cut by reading.
            number += len(block) - len(block.replace(b"\n", b"")) - (start > 0)


def _blocks(stream: BinaryIO, progress: Progress) -> Iterator[tuple[bytes, int, int, int]]:
    """(block, start, end, seen): block[start:end] are whole lines, or a piece of an endless one.

    What ends at `seen` or before was looked at with the piece before. A line that was cut by
    reading comes as a small block of its own: joining it to all that follows would copy that.
    """
    tail, seen = b"", 0
    while chunk := stream.read(BLOCK):
        progress.bytes_read += len(chunk)
        progress.last = (progress.last[1], chunk)
        start = 0
        if tail and (start := chunk.find(b"\n") + 1):
            whole = tail + chunk[:start]
            yield whole, 0, len(whole), seen
            tail, seen = b"", 0
        block = tail + chunk if tail else chunk
        end, keep = block.rfind(b"\n", start) + 1, 0
        if end <= start:
            if len(block) - start <= MAX_LINE:
                tail = block[start:]
                continue
            end, keep = len(block), OVERLAP  # a line without end: look at it piece by piece
            progress.long_lines += 1
        yield block, start, end, seen
        tail, seen = block[end - keep :], keep
    if len(tail) > seen:
        yield tail, 0, len(tail), seen


def _lines(
    block: bytes, at: int, end: int, hits: list[tuple[int, int]], number: int, watch: Watch
) -> Generator[RawLine, None, int]:
    """Yield the lines of block[at:end] that `hits` or `watch` ask for; return the next number."""
    index = 0
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
    return number + block.count(b"\n", at, end)


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
