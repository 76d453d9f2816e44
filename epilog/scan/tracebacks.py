"""Finding the line that ends a Python traceback, also where ranks write into each other."""

import re

from epilog.scan.prefix import PrefixParser
from epilog.scan.text import segments

HEADER = "Traceback (most recent call last)"
MAX_LINES = 250
"""Lines of one writer until its traceback is given up."""
MAX_OPEN = 1024
MAX_FOLLOWED = 16384
"""Tracebacks of one file that are followed; later ones are seen by their exception's name only."""

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|"
    r"Abort|Aborted|Fault|Mismatch|OOM|Closed|Died|Killed|NotFound|Group)\w*(?::.*)?$"
    r"|(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?::.*)?$|Exception(?::.*)?$"
)
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "<string>")


class _Open:
    """One traceback that has begun."""

    __slots__ = ("call", "caller", "lines", "place")

    def __init__(self) -> None:
        self.lines = 0
        self.place = ""
        self.call = ""
        self.caller = ""

    def frame(self, text: str) -> None:
        """Note a frame: the innermost one, what it calls, and the last one of the program."""
        self.place, _, call = text[6:400].replace('", line ', ":").partition(", in ")
        self.place, self.call = self.place[:200], call.partition(" ")[0][:80]
        if not any(folder in self.place for folder in _LIBRARIES):
            self.caller = self.place


class Tracebacks:
    """The tracebacks that are open in a file, one for each writer."""

    def __init__(self, parser: PrefixParser) -> None:
        self._parser = parser
        self._open: dict[tuple[object, ...], _Open] = {}
        self._chained: set[tuple[object, ...]] = set()
        self._followed = 0

    @property
    def active(self) -> bool:
        """Whether the lines that follow are wanted."""
        return bool(self._open)

    def take(self, data: bytes, is_header: bool) -> dict[str, str] | None:
        """Look at a line. Where it ends a traceback, give what is known of that one:
        `frame` (file and line of the innermost frame) and `chained` for one that was raised
        while another was handled; else None."""
        if not is_header and not self._open:
            return None
        for text in reversed(segments(data)):
            prefix = self._parser.parse(text)
            body = text[prefix.body :]
            stream = prefix.stream
            if HEADER in body:
                self._begin(stream)
                return None
            if stream in self._open:
                return self._step(stream, body)
        return None

    def _begin(self, stream: tuple[object, ...]) -> None:
        if self._followed >= MAX_FOLLOWED or len(self._open) >= MAX_OPEN:
            return
        self._followed += 1
        self._open[stream] = _Open()

    def _step(self, stream: tuple[object, ...], body: str) -> dict[str, str] | None:
        traceback = self._open[stream]
        traceback.lines += 1
        if traceback.lines > MAX_LINES:
            del self._open[stream]
        elif body.startswith((" ", "\t")) or not body:
            if (frame := body.strip()).startswith('File "'):
                traceback.frame(frame)
        elif _EXCEPTION.match(body):
            del self._open[stream]
            return self._facts(stream, traceback)
        return None

    def _facts(self, stream: tuple[object, ...], traceback: _Open) -> dict[str, str]:
        told = {
            "frame": traceback.place,
            "call": traceback.call,
            "caller": traceback.caller if traceback.caller != traceback.place else "",
        }
        facts = {name: value for name, value in told.items() if value}
        if stream in self._chained:
            self._chained.discard(stream)
            facts["chained"] = "1"
        return facts

    def note_chain(self, data: bytes) -> bool:
        """Remember `During handling of …`: the next traceback of this writer is a follow-up."""
        for text in segments(data):
            prefix = self._parser.parse(text)
            if text[prefix.body :].startswith(CHAINED):
                if len(self._chained) < MAX_OPEN:
                    self._chained.add(prefix.stream)
                return True
        return False
