"""What a door is: one place where data of others comes in, fed with any bytes at all.

`feed` must come back for whatever it is given. It raises nothing but AssertionError, and that only
where garbage led to something that garbage must never lead to: a drain, a verdict of go, text that
moves a terminal's cursor, or a figure that is no number.
"""

import math
import os
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from healthcheck.report.clean import clean


class Door(NamedTuple):
    """`seeds` are real inputs, from which the fuzzer begins. `largest`: bytes worth trying."""

    name: str
    feed: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    largest: int = 8192


DOORS: dict[str, Door] = {}


def door(name: str, seeds: Callable[[], Iterable[bytes]], largest: int = 8192):
    """Register a function as a door."""

    def register(feed: Callable[[bytes], None]) -> Callable[[bytes], None]:
        DOORS[name] = Door(name, feed, seeds, largest)
        return feed

    return register


def text_of(data: bytes) -> str:
    """As every door of ours decodes what it reads."""
    return data.decode("utf-8", "replace")


def environment_of(data: bytes) -> dict[str, str]:
    """`NAME=value` lines as os.environ gives them, undecodable bytes as surrogates."""
    pairs = (line.partition(b"=") for line in data.split(b"\n"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def finite(value: Any) -> None:
    """No float in it is nan or infinite: such a figure passes every comparison, or none."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, float):
        assert math.isfinite(value), value
    elif isinstance(value, dict):
        for key, one in value.items():
            finite(key)
            finite(one)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            finite(one)


def encodable(value: Any) -> None:
    """It goes through JSON and msgpack: reports and the reader's pipe carry it."""
    msgspec.json.encode(value)
    msgspec.msgpack.encode(value)


def harmless(text: str) -> None:
    """One line that moves no cursor and prints on any terminal."""
    assert text.split() == clean(text, len(text) + 1).split(), repr(text)
    text.encode("utf-8")


_scratch: dict[str, tempfile.TemporaryDirectory] = {}


def scratch(name: str) -> str:
    """A folder of this process's own for a door that reads files, on memory where there is some."""
    key = f"{name}-{os.getpid()}"
    if key not in _scratch:
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        _scratch[key] = tempfile.TemporaryDirectory(prefix="flightcheck-fuzz-", dir=base)
    return _scratch[key].name


def put(path: str, data: bytes) -> str:
    """Write a file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path
