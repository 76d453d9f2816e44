"""Plain data out of a pickle, and nothing else.

Python's own `pickle` runs what a file tells it to. This reader knows only the opcodes that build
dicts, lists, tuples, strings, numbers, booleans and None (torch's C++ pickler writes no others),
and refuses every other one by name, so that no file can make it import, call or construct
anything. Numbers of operations, containers and dict keys are bounded; nothing is allocated for a
length that a file merely claims.
"""

import pickletools
import struct
from collections.abc import Callable
from typing import Any

MAX_OPS = 5_000_000
MAX_CONTAINERS = 1_000_000
MAX_KEYS = 200_000
_MARK = object()
_NAMES = {ord(op.code): op.name for op in pickletools.opcodes}
_DOUBLE = struct.Struct(">d")
_CHECK_EVERY = 0x3FFF


class Refused(ValueError):  # noqa: N818 - an answer about a file, not a fault of ours
    """The file is no pickle of plain data; the text says at which byte and why."""


def loads(data: bytes, tick: Callable[[], None] | None = None) -> Any:
    """The plain data in `data`. Raises Refused, never anything else.

    `tick` is called now and then, and may raise to end a reading that takes too long.
    """
    reader = _Reader(data, tick)
    try:
        return reader.run()
    except IndexError:
        raise Refused(f"cut short or damaged at byte {reader.at}") from None
    except (UnicodeDecodeError, TypeError, ValueError, MemoryError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"damaged at byte {reader.at}: {type(error).__name__}") from None


class _Reader:
    """The stack machine. `at` is the byte that is being read."""

    def __init__(self, data: bytes, tick: Callable[[], None] | None) -> None:
        self.data = data
        self.tick = tick
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.containers = 0

    def run(self) -> Any:
        """Every opcode until STOP. The frequent ones come first, the rest by table."""
        data, stack, memo = self.data, self.stack, self.memo
        ops = 0
        while True:
            op = data[self.at]
            self.at += 1
            ops += 1
            if not ops & _CHECK_EVERY:
                self._bounds(ops)
            if op == 0x68:  # BINGET
                stack.append(self._remembered(data[self.at]))
                self.at += 1
            elif op == 0x4B:  # BININT1
                stack.append(data[self.at])
                self.at += 1
            elif op == 0x58:  # BINUNICODE
                stack.append(self._text(4))
            elif op == 0x71:  # BINPUT
                memo[data[self.at]] = stack[-1]
                self.at += 1
            elif op == 0x72:  # LONG_BINPUT
                memo[self._number(4)] = stack[-1]
            elif op == 0x6A:  # LONG_BINGET
                stack.append(self._remembered(self._number(4)))
            elif op == 0x28:
                stack.append(_MARK)
            elif op == 0x2E:  # STOP
                return self._whole()
            else:
                self._rare(op)

    def _bounds(self, ops: int) -> None:
        if ops > MAX_OPS:
            raise Refused(f"more than {MAX_OPS:,} operations")
        if self.tick:
            self.tick()

    def _rare(self, op: int) -> None:
        step = _STEPS.get(op)
        if step is None:
            name = _NAMES.get(op, f"0x{op:02x}")
            raise Refused(
                f"opcode {name} at byte {self.at - 1}: expected plain data, and this could run code"
            )
        step(self)

    def _whole(self) -> Any:
        if len(self.stack) != 1 or self.stack[0] is _MARK:
            raise Refused(f"expected one value at its end, found {len(self.stack)}")
        return self.stack[0]

    def _remembered(self, index: int) -> Any:
        if index not in self.memo:
            raise Refused(f"memo {index} at byte {self.at} was never set")
        return self.memo[index]

    def take(self, size: int) -> bytes:
        """The next bytes; a length beyond the file's end is refused, not allocated."""
        end = self.at + size
        if end > len(self.data):
            raise Refused(f"{size:,} bytes claimed at byte {self.at}, {len(self.data):,} are there")
        chunk = self.data[self.at : end]
        self.at = end
        return chunk

    def _number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def _text(self, size: int) -> str:
        return self.take(self._number(size)).decode("utf-8", "surrogatepass")

    def fresh(self, container: Any) -> None:
        """Push a new container, counted."""
        self.containers += 1
        if self.containers > MAX_CONTAINERS:
            raise Refused(f"more than {MAX_CONTAINERS:,} containers")
        self.stack.append(container)

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark, taken off the stack."""
        stack = self.stack
        for at in range(len(stack) - 1, -1, -1):
            if stack[at] is _MARK:
                items = stack[at + 1 :]
                del stack[at:]
                return items
        raise Refused(f"no mark for the items at byte {self.at}")

    def top(self, kind: type) -> Any:
        """The container on top of the stack."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise Refused(f"expected a {kind.__name__} to fill at byte {self.at}")
        return self.stack[-1]

    def fill(self, target: dict[Any, Any], items: list[Any]) -> None:
        """Set keys and values. Keys that hash slowly or alike are refused."""
        if len(items) % 2:
            raise Refused(f"a key without a value at byte {self.at}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str and not (type(key) is int and -(2**31) <= key < 2**31):
                raise Refused(f"a key of type {type(key).__name__} at byte {self.at}")
            target[key] = value
        if len(target) > MAX_KEYS:
            raise Refused(f"more than {MAX_KEYS:,} keys in one dict")


def _long(reader: _Reader, size: int) -> None:
    if size > 16:
        raise Refused(f"an integer of {size} bytes at byte {reader.at}")
    reader.stack.append(int.from_bytes(reader.take(size), "little", signed=True))


def _signed(reader: _Reader, size: int) -> None:
    reader.stack.append(int.from_bytes(reader.take(size), "little", signed=True))


def _last(reader: _Reader, count: int) -> None:
    stack = reader.stack
    if len(stack) < count or _MARK in stack[-count:]:
        raise Refused(f"too few items for a tuple at byte {reader.at}")
    items = tuple(stack[-count:])
    del stack[-count:]
    reader.fresh(items)


def _value(reader: _Reader) -> Any:
    value = reader.stack.pop()
    if value is _MARK:
        raise Refused(f"a mark in place of a value at byte {reader.at}")
    return value


def _append(reader: _Reader) -> None:
    value = _value(reader)
    reader.top(list).append(value)


def _appends(reader: _Reader) -> None:
    items = reader.since_mark()
    reader.top(list).extend(items)


def _set_item(reader: _Reader) -> None:
    value, key = _value(reader), _value(reader)
    reader.fill(reader.top(dict), [key, value])


def _set_items(reader: _Reader) -> None:
    items = reader.since_mark()
    reader.fill(reader.top(dict), items)


def _dict(reader: _Reader) -> None:
    target: dict[Any, Any] = {}
    reader.fill(target, reader.since_mark())
    reader.fresh(target)


def _memoize(reader: _Reader) -> None:
    reader.memo[len(reader.memo)] = reader.stack[-1]


_STEPS: dict[int, Callable[[_Reader], Any]] = {
    0x80: lambda r: r.take(1),  # PROTO
    0x95: lambda r: r.take(8),  # FRAME
    0x4E: lambda r: r.stack.append(None),
    0x88: lambda r: r.stack.append(True),
    0x89: lambda r: r.stack.append(False),
    0x4A: lambda r: _signed(r, 4),  # BININT
    0x4D: lambda r: r.stack.append(r._number(2)),  # BININT2
    0x8A: lambda r: _long(r, r._number(1)),  # LONG1
    0x8B: lambda r: _long(r, r._number(4)),  # LONG4
    0x47: lambda r: r.stack.append(_DOUBLE.unpack(r.take(8))[0]),  # BINFLOAT
    0x8C: lambda r: r.stack.append(r._text(1)),  # SHORT_BINUNICODE
    0x8D: lambda r: r.stack.append(r._text(8)),  # BINUNICODE8
    0x43: lambda r: r.stack.append(r.take(r._number(1))),  # SHORT_BINBYTES
    0x42: lambda r: r.stack.append(r.take(r._number(4))),  # BINBYTES
    0x5D: lambda r: r.fresh([]),
    0x7D: lambda r: r.fresh({}),
    0x29: lambda r: r.fresh(()),
    0x85: lambda r: _last(r, 1),
    0x86: lambda r: _last(r, 2),
    0x87: lambda r: _last(r, 3),
    0x74: lambda r: r.fresh(tuple(r.since_mark())),
    0x6C: lambda r: r.fresh(r.since_mark()),
    0x64: _dict,
    0x61: _append,
    0x65: _appends,
    0x73: _set_item,
    0x75: _set_items,
    0x94: _memoize,
}
