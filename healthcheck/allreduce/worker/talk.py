"""How a rank tells what it does: JSON lines in a pipe, and a slot of shared memory.

A line is at most LINE bytes, which a pipe takes in one piece even when several ranks write. The
slot holds what must be readable of a rank that is stopped or dead: when it last gave a sign of
life, how many collectives it entered and left, and what the last one was.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
import time
from typing import Any, NamedTuple

LINE = 4096
SLOT = 256
PULSE_S = 0.1
_STATE = struct.Struct("<dQQQ80s80s")
_PULSE = struct.Struct("<d")


class State(NamedTuple):
    """What a slot says."""

    at: float
    """Monotonic time of the last sign of life; 0 where the rank never came up."""
    entered: int
    left: int
    phases: int
    """How many parts of the test it has begun; `phase` is the last."""
    phase: str
    call: str


def read_slot(memory: mmap.mmap, index: int) -> State:
    """The state of one rank, whether or not it still lives."""
    at, entered, left, phases, *words = _STATE.unpack_from(memory, index * SLOT)
    phase, call = (word.rstrip(b"\0").decode("utf-8", "replace") for word in words)
    return State(at, entered, left, phases, phase, call)


class Pipe:
    """The writing end of the messages' pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def send(self, kind: str, /, **fields: Any) -> None:
        """Send one message. A text that is too long is cut; nobody there means: leave."""
        line = _line(kind, fields)
        if len(line) > LINE:
            short = {k: v[:900] if isinstance(v, str) else v for k, v in fields.items()}
            line = _line(kind, short)
        if len(line) > LINE:
            line = _line("error", {"reason": "a message was too long: " + kind, "kind": "bug"})
        try:
            os.write(self._fd, line)
        except BrokenPipeError:
            os._exit(0)


def _line(kind: str, fields: dict[str, Any]) -> bytes:
    # ASCII, so that one character is one byte unless escaped.
    return json.dumps({"t": kind, **fields}, separators=(",", ":")).encode("ascii") + b"\n"


class Slot:
    """One rank's piece of the shared memory, and the thread that shows the rank is alive."""

    def __init__(self, memory: mmap.mmap, index: int) -> None:
        self._memory = memory
        self._at = index * SLOT
        self.entered = 0
        self.left = 0
        self.phases = 0
        self.phase = ""
        self.call = ""
        self._write()

    def start_pulse(self) -> None:
        """From now on a thread shows that this process runs and that its interpreter turns."""
        threading.Thread(target=self._pulse, daemon=True).start()

    def enter(self, call: str) -> None:
        """The next collective begins."""
        self.entered += 1
        self.call = call
        self._write()

    def leave(self) -> None:
        """The collective is over."""
        self.left += 1
        self._write()

    def in_phase(self, phase: str) -> None:
        """Another part of the test begins."""
        self.phase = phase
        self.phases += 1
        self._write()

    def _write(self) -> None:
        _STATE.pack_into(
            self._memory, self._at, time.monotonic(), self.entered, self.left, self.phases,
            self.phase.encode()[:80], self.call.encode()[:80],
        )  # fmt: skip

    def _pulse(self) -> None:
        while True:
            _PULSE.pack_into(self._memory, self._at, time.monotonic())
            time.sleep(PULSE_S)
