"""The head and the tail of a file too large to be read whole."""

from typing import BinaryIO

HEAD_SHARE = 0.25
"""Of the bound; failures stand at the end, and the beginning names ranks and hosts."""


class Window:
    """A reader of `file` that leaves out the middle, and says so on a line of its own.

    `cut` is the number of bytes left out. Reads no more than the size the file had when it was
    opened: a file that still grows has an end all the same.
    """

    def __init__(self, file: BinaryIO, size: int, bound: int) -> None:
        self._file = file
        self.cut = max(0, size - bound)
        head = int(bound * HEAD_SHARE) if self.cut else size
        self._parts = [(0, head)]
        if self.cut:
            self._parts.append((size - (bound - head), bound - head))
        self._note = b""
        self._left = 0
        self._next()

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; b"" at the end. Raises OSError as reading does."""
        while True:
            if self._note:
                note, self._note = self._note, b""
                return note
            want = self._left if size < 0 else min(size, self._left)
            chunk = self._file.read(want) if want else b""
            self._left -= len(chunk)
            if chunk:
                return chunk
            if not self._parts:
                return b""
            self._note = f"\n[flightcheck: {self.cut} bytes left out here]\n".encode()
            self._next()

    def readable(self) -> bool:
        """As a file says it."""
        return True

    def _next(self) -> None:
        start, self._left = self._parts.pop(0)
        self._file.seek(start)
