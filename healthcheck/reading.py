"""Running probes so that none of them can hold us.

Every probe reads in a forked child: a driver, a sysfs file or a mount that hangs then hangs the
child. The child notes in shared memory which call it is about to make, so that a hang is named
("nvmlDeviceGetTemperature on 0000:b3:00.0"), and sends its facts through a pipe as builtin data.
"""

import gc
import marshal
import mmap
import os
import select
import signal
import struct
import sys
import time
from importlib import import_module
from typing import Any, NamedTuple

from healthcheck.attention import Attention
from healthcheck.host import Host

HUNG_AFTER_S = 3.5
"""A single call without an answer for this long is a hang. Without persistence mode the first
handle of a GPU takes 1 to 3 s, which is slow but sound (hardware.md)."""
MAX_FACTS = 64 << 20
LOOK_S = 0.25
KILL_GRACE_S = 0.1
CHILD_LIFE_S = 120
"""No child lives longer, also where its parent was killed and nobody is left to end it."""
_LENGTH = struct.Struct("<Q")
_NOTE = struct.Struct("<Qd64s64s")


_leaving: set[int] = set()
"""Children that nobody waits for any more: done and on their way out, or stuck in the kernel."""


def reap() -> None:
    """Take the children that have ended off the process table, without waiting for any.

    A short-lived command leaves that to init; a process that looks again and again must not
    gather zombies.
    """
    for pid in list(_leaving):
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                _leaving.discard(pid)
        except ChildProcessError:
            _leaving.discard(pid)


class Plan(NamedTuple):
    """What the probes are asked to read, besides what is always read."""

    stage: str = "sweep"
    kernel_log_since: int = 0
    mounts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    command_timeout_s: float = 4.0


class Progress:
    """A slot of shared memory that says what a child is doing right now."""

    def __init__(self) -> None:
        self._slot = mmap.mmap(-1, mmap.PAGESIZE)
        self.calls = 0

    def note(self, call: str, subject: str = "") -> None:
        """Say which call comes next, and on what."""
        self.calls += 1
        _NOTE.pack_into(
            self._slot, 0, self.calls, time.monotonic(), call.encode(), subject.encode()
        )

    def last(self) -> tuple[int, float, str, str]:
        """(calls so far, monotonic time of the last, its name, its subject)."""
        calls, at, call, subject = _NOTE.unpack_from(self._slot, 0)
        return (
            calls,
            at,
            call.rstrip(b"\0").decode("utf-8", "replace"),
            subject.rstrip(b"\0").decode("utf-8", "replace"),
        )


class Ask(NamedTuple):
    """What a probe is handed: the machine, what to read, and where to note its calls."""

    host: Host
    plan: Plan
    progress: Progress


class Reading:
    """One probe at work in a child."""

    def __init__(self, probe: str, host: Host, plan: Plan) -> None:
        self.probe = probe
        self.progress = Progress()
        self.started = time.monotonic()
        self.data = b""
        self.done = False
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._reader)
            _child(probe, Ask(host, plan, self.progress), writer)
        os.close(writer)
        os.set_blocking(self._reader, False)

    def fileno(self) -> int:
        """The pipe's read end, for select."""
        return self._reader

    def take(self) -> None:
        """Read what is there; notice when all of it has come.

        The length in front says when. The child's exit is not waited for: closing the driver's
        device files can hang where every call before it went well.
        """
        try:
            while chunk := os.read(self._reader, 1 << 18):
                self.data += chunk
                if self._complete():
                    break
        except BlockingIOError:
            return
        self.done = True
        os.close(self._reader)
        _leaving.add(self._pid)

    def _complete(self) -> bool:
        if len(self.data) < _LENGTH.size:
            return False
        expected = _LENGTH.unpack_from(self.data)[0]
        return bool(len(self.data) >= min(_LENGTH.size + expected, MAX_FACTS))

    def abandon(self) -> None:
        """Kill the child and leave it behind if it will not die (sleep in the kernel)."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # Too early for its own session, or gone already.
            try:
                os.kill(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.close(self._reader)
        _leaving.add(self._pid)
        until = time.monotonic() + KILL_GRACE_S
        while self._pid in _leaving and time.monotonic() < until:
            time.sleep(0.002)
            reap()

    def result(self) -> dict[str, Any]:
        """What the child sent: {"facts": …} or {"problem": …}."""
        try:
            answer = marshal.loads(self.data[_LENGTH.size :])  # noqa: S302 - written by our own fork
        except (EOFError, ValueError, TypeError):
            calls, _, call, subject = self.progress.last()
            where = f" in {call} {subject}".rstrip() if calls else ""
            return _problem("failed", f"the {self.probe} probe died{where}", call, subject)
        return answer if isinstance(answer, dict) else _problem("failed", "no facts")

    def overdue(self, attention: Attention) -> dict[str, Any]:
        """The problem of a child that has not finished: hung in one call, merely slow, or stalled
        with the whole machine, which says nothing about what it asked.
        """
        now = attention.look()
        calls, at, call, subject = self.progress.last()
        on = f" on {subject}" if subject else ""
        if calls and attention.silent_s(at) >= HUNG_AFTER_S:
            return _problem(
                "hung", f"{call}{on} has given no answer for {now - at:.1f} s", call, subject
            )
        reason = (
            f"the {self.probe} probe made {calls} calls in {now - self.started:.1f} s and was "
            f"not done (last {call or 'none'}{on})"
        )
        if attention.longest_gap_s:
            gap = f"{attention.longest_gap_s:.1f} s"
            return _problem("stalled", f"this machine stood still for {gap}; {reason}")
        return _problem("slow", reason, call, subject)


def launch(probe: str, host: Host, plan: Plan) -> Reading:
    """Start a probe (a module of healthcheck.probes) in a child."""
    if _leaving:
        reap()
    return Reading(probe, host, plan)


def collect(
    readings: list[Reading], deadline: float, attention: Attention
) -> dict[str, dict[str, Any]]:
    """Wait for the readings until `deadline` (monotonic); answers by probe name."""
    waiting = list(readings)
    poller = select.poll()
    by_fd = {r.fileno(): r for r in waiting}
    for reading in waiting:
        poller.register(reading, select.POLLIN | select.POLLHUP)
    answers: dict[str, dict[str, Any]] = {}
    late = False
    while by_fd and not late:
        left = min(deadline - attention.look(), LOOK_S)
        late = left <= 0  # what lies there already is taken, however late we come
        for fd, _ in poller.poll(0 if late else max(1, int(left * 1000))):
            reading = by_fd[fd]
            reading.take()
            if reading.done:
                poller.unregister(fd)
                del by_fd[fd]
                answers[reading.probe] = reading.result()
    for reading in by_fd.values():
        answers[reading.probe] = reading.overdue(attention)
        reading.abandon()
    return answers


def _child(probe: str, ask: Ask, writer: int) -> None:
    """Read, send, and leave without running anything the parent registered."""
    try:
        gc.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.alarm(CHILD_LIFE_S)
        os.setsid()
        # An abandoned child must not hold the hook's output open (slurm.md: the prolog would
        # count as running).
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        _send(writer, _read(probe, ask))
    finally:
        os._exit(0)


def _read(probe: str, ask: Ask) -> dict[str, Any]:
    try:
        facts = import_module(f"healthcheck.probes.{probe}").read(ask)
        ask.progress.note("sending its facts")  # what comes now is nobody's call but ours
    except PermissionError as error:
        return _problem("denied", _told(error))
    except FileNotFoundError as error:
        return _problem("absent", _told(error))
    except Exception as error:  # noqa: BLE001 - whatever broke is told and hides nothing
        calls, _, call, subject = ask.progress.last()
        where = f" (in {call} {subject})".replace(" )", ")") if calls else ""
        return _problem("failed", f"{type(error).__name__}: {error}{where}", call, subject)
    structs = sys.modules.get("msgspec")
    return {"facts": structs.to_builtins(facts) if structs else facts}


def _told(error: OSError) -> str:
    if not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _problem(kind: str, reason: str, call: str = "", subject: str = "") -> dict[str, Any]:
    return {
        "problem": {
            "kind": kind,
            "reason": reason,
            "call": call or None,
            "subject": subject or None,
        }
    }


def _send(fd: int, answer: dict[str, Any]) -> None:
    facts = marshal.dumps(answer)
    data = memoryview(_LENGTH.pack(len(facts)) + facts)
    while data:
        data = data[os.write(fd, data) :]
