"""The controller's door: a UNIX socket that thousands of clients wait at."""

import heapq
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from slurm_integration.drill.storm.controller import Controller

BACKLOG = 4096
SOCKET = "ctl"
STATE = "controller.json"


class Outcome(msgspec.Struct, frozen=True):
    """What a controller has to say when the storm is over. `drained`: our drains at its end."""

    calls: dict[str, int]
    drained: tuple[str, ...]
    most_drained: int
    claims_left: int
    throttled: int


@contextmanager
def serving(folder: str, controller: Controller) -> Iterator[None]:
    """Serve in a process of its own; its Outcome lies in the folder afterwards."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(f"{folder}/{SOCKET}")
    door.listen(BACKLOG)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            Server(door, controller, folder).run()
            code = 0
        finally:
            os._exit(code)
    door.close()
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def outcome(folder: str) -> Outcome:
    """What the controller left behind. Raises OSError where it died."""
    with open(f"{folder}/{STATE}", "rb") as file:
        return msgspec.json.decode(file.read(), type=Outcome)


class Server:
    """One loop: take requests, answer each when the controller has it ready."""

    def __init__(self, door: socket.socket, controller: Controller, folder: str) -> None:
        self._door, self._controller, self._folder = door, controller, folder
        self._selector = selectors.DefaultSelector()
        self._asked: dict[socket.socket, bytes] = {}
        self._due: list[tuple[float, int, socket.socket, list[str] | bytes]] = []
        """Requests to be done at a time, and answers to be sent at a time."""
        self._count = self._throttled = 0
        self._end = False

    def run(self) -> None:
        """Until SIGTERM."""
        signal.signal(signal.SIGTERM, self._stop)
        self._door.setblocking(False)
        self._selector.register(self._door, selectors.EVENT_READ)
        while not self._end:
            wait = self._due[0][0] - time.monotonic() if self._due else 0.05
            for key, _ in self._selector.select(max(0.0, min(wait, 0.05))):
                if key.fileobj is self._door:
                    self._welcome()
                elif isinstance(key.fileobj, socket.socket):
                    self._listen(key.fileobj)
            self._answer_due()
        self._save()

    def _stop(self, *_: object) -> None:
        self._end = True

    def _welcome(self) -> None:
        for _ in range(64):
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            self._asked[client] = b""
            self._selector.register(client, selectors.EVENT_READ)

    def _listen(self, client: socket.socket) -> None:
        data = client.recv(1 << 16)
        self._asked[client] += data
        if data and not self._asked[client].endswith(b"\n"):
            return
        self._selector.unregister(client)
        words = self._asked.pop(client).decode("utf-8", "replace").rstrip("\n").split("\x1f")
        now = time.monotonic()
        if not data or len(words) < 2:
            client.close()
        elif self._controller.throttled(now):
            self._throttled += 1
            self._send(client, b"B")
        else:
            verb = "update" if words[1] == "update" else "show"
            self._push(self._controller.done_at(verb, now), client, words)

    def _push(self, at: float, client: socket.socket, what: list[str] | bytes) -> None:
        self._count += 1
        heapq.heappush(self._due, (at, self._count, client, what))

    def _answer_due(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            at, _, client, what = heapq.heappop(self._due)
            if isinstance(what, bytes):
                self._send(client, what)
            else:
                answer = self._controller.answer(what, time.time())
                self._push(at + self._controller.late_by(), client, answer)

    def _send(self, client: socket.socket, data: bytes) -> None:
        try:
            client.settimeout(2)
            client.sendall(data)
        except OSError:
            pass  # a client that was killed at its time-out
        client.close()

    def _save(self) -> None:
        nodes = self._controller.nodes.values()
        told = Outcome(
            calls=self._controller.calls,
            drained=tuple(n.name for n in nodes if n.drained and n.reason.startswith("flight")),
            most_drained=self._controller.most_drained,
            claims_left=sum("flightcheck-claim" in n.comment for n in nodes),
            throttled=self._throttled,
        )
        with open(f"{self._folder}/{STATE}.new", "wb") as file:
            file.write(msgspec.json.encode(told))
        os.replace(f"{self._folder}/{STATE}.new", f"{self._folder}/{STATE}")
