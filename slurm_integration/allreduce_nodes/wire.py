"""JSON lines over TCP between agents and the coordinator. Nothing here waits without a limit."""

import json
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from healthcheck.strict_json import decode_json

MAX_LINE = 1 << 16
SEND_S = 5.0


class Line:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.closed = False
        # Asked for now: of a peer that has hung up the kernel no longer tells it.
        self._ends = tuple(
            _address(ask) for ask in (connection.getpeername, connection.getsockname)
        )
        self._buffer = b""
        self._queue: list[dict[str, Any]] = []
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A peer whose machine died says nothing more: the kernel finds out within ~12 s.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3)):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def fileno(self) -> int:
        """For select."""
        return self.socket.fileno()

    def peer(self) -> str:
        """The other side's address."""
        return self._ends[0]

    def own(self) -> str:
        """The address on this side."""
        return self._ends[1]

    def send(self, kind: str, /, **fields: Any) -> bool:
        """Send one message; False where nobody takes it."""
        data = json.dumps({"t": kind, **fields}, separators=(",", ":")).encode() + b"\n"
        try:
            self.socket.settimeout(SEND_S)
            self.socket.sendall(data)
        except OSError:
            self.closed = True
        return not self.closed

    def receive(self) -> list[dict[str, Any]]:
        """Messages that are there after one read. What is no message closes the line."""
        try:
            self.socket.settimeout(0.5)
            chunk = self.socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError:
            chunk = b""
        if not chunk:
            self.closed = True
            return []
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        messages = [_decode(line) for line in lines if len(line) <= MAX_LINE]
        if len(self._buffer) > MAX_LINE or None in messages or len(messages) < len(lines):
            self.closed = True
        return [message for message in messages if message is not None]

    def wait(self, until: float) -> dict[str, Any] | None:
        """The next message before `until` (monotonic); None where none came or the line closed."""
        late = False
        while not self._queue and not self.closed and not late:
            left = until - time.monotonic()
            late = left <= 0  # what is here by now counts, however late we come
            if select.select([self.socket], [], [], max(0.0, min(left, 1.0)))[0]:
                self._queue += self.receive()
        return self._queue.pop(0) if self._queue else None

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self.socket.close()


def _address(ask: Callable[[], Any]) -> str:
    try:
        return str(ask()[0])
    except OSError:
        return ""


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        message = decode_json(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and isinstance(message.get("t"), str) else None
