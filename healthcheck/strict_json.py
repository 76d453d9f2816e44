"""Reading JSON that a disk, a crash, another release or an intruder may have changed.

msgspec checks the form, but JSON nested thousands deep ends in a RecursionError, also inside a
field that nobody asked for, and a whole number of any length is taken, which can then never be
written again. Here everything wrong with a text is one kind of error, so that no reader forgets
the others. On the path of every prolog: nothing is imported that is not there already.
"""

import re
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_LONG = re.compile(rb"\d{19}")
"""2^63 has 19 digits."""


@overload
def decode_json(data: bytes, kind: type[T]) -> T: ...
@overload
def decode_json(data: bytes, kind: Any = Any) -> Any: ...
def decode_json(data: bytes, kind: Any = Any) -> Any:
    """The text as a `kind`. Raises msgspec.MsgspecError, a ValueError, and nothing else."""
    value = decode_unbounded(data, kind)
    if _LONG.search(data):
        _check(decode_unbounded(data))
    return value


def decode_unbounded(data: bytes, kind: Any = Any) -> Any:
    """As decode_json, with whole numbers of any length: for who looks at each number itself."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(f"no JSON of ours: {error}") from error


def _check(value: Any) -> None:
    """Refuse whole numbers beyond 64 bits."""
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise msgspec.ValidationError("a whole number beyond 64 bits")
    elif isinstance(value, dict):
        for one in value.values():
            _check(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _check(one)
