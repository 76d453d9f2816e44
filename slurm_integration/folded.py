"""Folded node lists as text, `gpu[01-04,09],login1`: taken apart without a library. Pure.

In time that grows with the list's length alone, whatever stands in it.
"""

import re
from collections.abc import Iterator

_MARK = re.compile(r"\[[^\]]*\]?|,")
_RANGES = re.compile(r"\[([^\],-]*)[^\]]*\]?")


def parts(nodelist: str) -> Iterator[str]:
    """The terms between the commas that are in no bracket."""
    begin = 0
    for mark in _MARK.finditer(nodelist):
        if mark.group() == ",":
            yield nodelist[begin : mark.start()]
            begin = mark.end()
    yield nodelist[begin:]


def first(nodelist: str) -> str:
    """The first host: gpu01."""
    return _RANGES.sub(r"\1", next(parts(nodelist)))
