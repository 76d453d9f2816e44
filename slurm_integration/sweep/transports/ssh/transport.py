"""Many hosts through ssh: a pool of threads, one watchdog for every deadline."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from slurm_integration.sweep.model import Answer, SweepError
from slurm_integration.sweep.transports.base import (
    CONNECT_S,
    Arrival,
    Emit,
    Errand,
    Target,
    no_answer,
)
from slurm_integration.sweep.transports.framing import read_answer, remote_line
from slurm_integration.sweep.transports.ssh.connection import Connection
from slurm_integration.sweep.transports.ssh.endpoint import Endpoint, SshConfig
from slurm_integration.sweep.transports.ssh.failures import NoAnswer
from slurm_integration.sweep.transports.ssh.keys import Keyring
from slurm_integration.sweep.transports.ssh.known_hosts import KnownHosts, read_files

_WATCH_S = 0.2
_LEAVE_S = 2.0


class SshSettings(msgspec.Struct, frozen=True):
    """What the command line says about ssh. Empty: as ssh_config and OpenSSH's defaults say."""

    config: str = ""
    user: str = ""
    identity: str = ""
    accept_new: bool = False
    connect_s: float = CONNECT_S


class SshTransport:
    """Nodes through ssh. Raises SweepError for an ssh_config that can't be read."""

    name = "ssh"

    def __init__(self, errand: Errand, settings: SshSettings) -> None:
        # paramiko logs tracebacks for every host that hangs up.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)
        self._errand = errand
        self._settings = settings
        self._config = SshConfig(settings.config, settings.user, settings.identity)
        self._keyring = Keyring()
        self._lines = {
            stage: remote_line(errand, stage) for stage in ("prolog", "epilog", "health", "sweep")
        }
        self._known: dict[tuple[str, ...], KnownHosts] = {}
        self._jumps: dict[tuple[str, ...], Connection | NoAnswer] = {}
        self._open: set[Connection] = set()
        self._lock = threading.Lock()
        self._jump_locks: dict[tuple[str, ...], threading.Lock] = {}
        self.notes: list[str] = []

    def run(self, targets: Sequence[Target], emit: Emit, stop: threading.Event) -> None:
        """Ask all of them, `fanout` at a time."""
        waiting = iter(targets)
        done = threading.Event()
        workers = [
            threading.Thread(target=self._work, args=(waiting, emit, stop), daemon=True)
            for _ in range(min(self._errand.fanout, len(targets)))
        ]
        watchdog = threading.Thread(target=self._watch, args=(stop, done), daemon=True)
        for thread in (watchdog, *workers):
            thread.start()
        for thread in workers:
            while thread.is_alive() and not stop.is_set():
                thread.join(_WATCH_S)
        leave = time.monotonic() + _LEAVE_S
        for thread in workers:
            # One that hangs in a name service is left behind; it is a daemon and emits nothing.
            thread.join(max(0.0, leave - time.monotonic()))
        done.set()
        watchdog.join(_LEAVE_S)
        for connection in [*self._open, *self._jumps.values()]:
            if isinstance(connection, Connection):
                connection.close()
        self.notes += self._keyring.notes

    def _work(self, waiting: Iterator[Target], emit: Emit, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._lock:
                target = next(waiting, None)
            if target is None:
                return
            arrival = self._ask(target)
            if not stop.is_set():
                emit(arrival)

    def _ask(self, target: Target) -> Arrival:
        started = time.monotonic()
        try:
            output, errors = self._visit(target, started + self._errand.timeout_s)
        except NoAnswer as told:
            seconds = time.monotonic() - started
            return no_answer(target, self.name, told.answer, told.detail, seconds)
        except SweepError as error:
            return no_answer(target, self.name, Answer.UNREACHABLE, str(error))
        except Exception as error:  # noqa: BLE001 - one host's oddity is no other host's
            detail = f"{type(error).__name__}: {error}"
            return no_answer(target, self.name, Answer.GARBAGE, detail)
        seconds = time.monotonic() - started
        return read_answer(output, errors, self._errand, target, self.name, seconds)

    def _visit(self, target: Target, deadline: float) -> tuple[bytes, bytes]:
        endpoint = self._config.endpoint(target.node)
        connection = Connection(endpoint, deadline)
        try:
            way = self._way(endpoint, connection)
            with self._lock:
                self._open.add(connection)
            self._login(connection, way)
            if connection.note:
                self.notes.append(connection.note)
            return connection.run(self._lines[target.stage], self._errand.max_output)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _login(self, connection: Connection, way: Any) -> None:
        connection.open(
            self._known_to(connection.endpoint),
            self._keyring,
            way,
            self._settings.connect_s,
            accept_new=self._settings.accept_new,
        )

    def _way(self, endpoint: Endpoint, connection: Connection) -> Any:
        """A channel of the last jump host; None for a direct connection."""
        if not endpoint.jumps or endpoint.proxy_command:
            return None
        last = self._jump(endpoint.jumps, connection.deadline)
        return last.tunnel(endpoint.host, endpoint.port)

    def _jump(self, jumps: tuple[str, ...], deadline: float) -> Connection:
        """The connection to the last of these, shared by all who go that way. Raises NoAnswer."""
        with self._lock:
            turn = self._jump_locks.setdefault(jumps, threading.Lock())
        with turn:
            found = self._jumps.get(jumps)
            if found is None:
                try:
                    found = self._open_jump(jumps, deadline)
                except NoAnswer as told:
                    found = NoAnswer(told.answer, f"jump host {jumps[-1]}: {told.detail}")
                self._jumps[jumps] = found
        if isinstance(found, NoAnswer):
            raise NoAnswer(found.answer, found.detail)
        return found

    def _open_jump(self, jumps: tuple[str, ...], deadline: float) -> Connection:
        endpoint = self._config.endpoint(jumps[-1], jump=True)
        way = None
        if len(jumps) > 1:
            way = self._jump(jumps[:-1], deadline).tunnel(endpoint.host, endpoint.port)
        connection = Connection(endpoint, deadline)
        self._login(connection, way)
        # It serves others after the one that opened it.
        connection.deadline = float("inf")
        return connection

    def _known_to(self, endpoint: Endpoint) -> KnownHosts:
        with self._lock:
            if endpoint.known_files not in self._known:
                self._known[endpoint.known_files] = read_files(endpoint.known_files)
            return self._known[endpoint.known_files]

    def _watch(self, stop: threading.Event, done: threading.Event) -> None:
        """Close what is past its deadline: some of paramiko's waits know none."""
        while not done.wait(_WATCH_S):
            now = time.monotonic()
            with self._lock:
                late = [one for one in self._open if stop.is_set() or now > one.deadline + 0.5]
            for connection in late:
                connection.close()
