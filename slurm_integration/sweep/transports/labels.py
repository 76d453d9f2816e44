"""The output of `srun --label`, taken apart into one stream a task. Pure.

srun writes each piece of a task's output as `TASK: piece\\n`, cut at newlines and after 1,024
bytes, whichever comes first. A task can't write another's label: each of its pieces gets its own.
Pieces are joined again without newlines, which our framing does not need.
"""

import re
from collections import deque
from collections.abc import Iterator

_LABEL = re.compile(rb" *(\d{1,7}): ?(.*)", re.DOTALL)
_MAX_LINE = 1 << 20
_MAX_ERRORS = 4096
_MAX_TAIL = 64
Answered = tuple[str, bytes, bytes]
"""Node, output, complaints."""


class LabelledStreams:
    """Collects what tasks write until each has given its whole answer."""

    def __init__(self, nonce: str, max_output: int) -> None:
        self._begin = re.compile(rb"<" + nonce.encode() + rb" begin ([^ <>]*)>")
        self._end = re.compile(rb"<" + nonce.encode() + rb" end \d+>")
        self._max = max_output
        self._said: dict[int, bytearray] = {}
        self._complained: dict[int, bytearray] = {}
        self._done: set[int] = set()
        self._rest_out = b""
        self._rest_err = b""
        self.messages: deque[str] = deque(maxlen=2000)
        """srun's own words, the last of them."""

    def output(self, chunk: bytes) -> Iterator[Answered]:
        """More of standard output; the answers that it completes."""
        lines = (self._rest_out + chunk).split(b"\n")
        self._rest_out = lines.pop()[-_MAX_LINE:]
        for line in lines:
            told = _LABEL.fullmatch(line)
            if told is None or (task := int(told[1])) in self._done:
                continue
            said = self._said.setdefault(task, bytearray())
            said += told[2]
            tail = bytes(said[-len(told[2]) - _MAX_TAIL :])
            if self._end.search(tail) or len(said) > self._max:
                yield from self._finish(task)

    def errors(self, chunk: bytes) -> None:
        """More of standard error: the tasks' complaints and srun's own messages."""
        lines = (self._rest_err + chunk).split(b"\n")
        self._rest_err = lines.pop()[-_MAX_LINE:]
        for line in lines:
            told = _LABEL.fullmatch(line)
            if told is None:
                text = line.decode("utf-8", "replace").strip()
                # Exit codes 1 to 3 are verdicts; srun calls every one an error.
                if text and "Exited with exit code" not in text:
                    self.messages.append(text[:1000])
            else:
                kept = self._complained.setdefault(int(told[1]), bytearray())
                kept += told[2] + b"\n"
                del kept[:-_MAX_ERRORS]

    def rest(self) -> Iterator[Answered]:
        """What is there of tasks that never came to their end."""
        for task in list(self._said):
            yield from self._finish(task)

    def _finish(self, task: int) -> Iterator[Answered]:
        said = bytes(self._said.pop(task))
        self._done.add(task)
        begin = self._begin.search(said[:65536])
        if begin and begin[1]:
            complained = bytes(self._complained.pop(task, b""))
            yield begin[1].decode("ascii", "replace"), said, complained
