"""The child that reads a user's files: root's no more, bounded, and never waited for too long.

Whatever a file holds is parsed there, without rights. What comes back through the pipe is checked
against the types of `Found` before anybody looks at it.
"""

import gc
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator

import msgspec

from epilog.reader import drop
from epilog.reader.errand import Errand, Found

MAX_ANSWER = 64 << 20
GRACE_S = 0.2
_LENGTH = struct.Struct("<Q")
Work = Callable[[Errand, list[str], float], Iterator[Found]]


class Reader:
    """A child at work on an errand."""

    def __init__(self, errand: Errand, work: Work | None = None) -> None:
        self._deadline = time.monotonic() + errand.seconds
        self._data = bytearray()
        self._pipe, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _child(errand, work, writer, self._deadline)
        os.close(writer)

    def collect(self) -> Found:
        """What was brought back in time. Never raises; `notes` tell what is missing."""
        late = not self._drain()
        self._end()
        parts, notes, whole = _parts(bytes(self._data))
        if late:
            notes.append("reading the job's files took too long; what was read by then counts")
        elif not whole:
            notes.append("reading the job's files broke off; what was read by then counts")
        return _merged(parts, notes)

    def _drain(self) -> bool:
        """Read the pipe to its end; False where the time was up first and nothing lies there."""
        poller = select.poll()
        poller.register(self._pipe, select.POLLIN | select.POLLHUP)
        late = False
        while not late:
            left = self._deadline - time.monotonic()
            if not poller.poll(max(0, int(left * 1000 + 0.999))):
                late = left <= 0
                continue
            chunk = os.read(self._pipe, 1 << 18)
            if not chunk:
                return True
            self._data += chunk
            if len(self._data) > MAX_ANSWER:
                return True
        return False

    def _end(self) -> None:
        """Kill what is left of the child; one that sleeps in the kernel is left behind."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            try:
                os.kill(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _reap(self._pid)
        os.close(self._pipe)


def as_user(uid: int, gid: int, user: str | None, seconds: float, act: Callable[[], None]) -> bool:
    """Run `act` in a child with the user's rights, and say whether it ended well in time."""
    deadline = time.monotonic() + seconds
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _detach()
            drop.close_others(3)
            drop.become(uid, gid, user)
            drop.bound(seconds, writes=True)
            act()
            code = 0
        finally:
            os._exit(code)
    pause = 0.0005
    while True:
        late = time.monotonic() >= deadline
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        if late:
            break
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    os.kill(pid, signal.SIGKILL)
    _reap(pid)
    return False


def _reap(pid: int) -> None:
    """Collect a killed child; one that sleeps in the kernel is not waited for."""
    until = time.monotonic() + GRACE_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
        time.sleep(0.002)


def _child(errand: Errand, work: Work | None, writer: int, deadline: float) -> None:
    """Prepare as root, become the user, read, send, leave."""
    try:
        gc.disable()
        _detach()
        drop.close_others(writer)
        notes: list[str] = []
        if work is None:
            work = _prepared()
        try:
            drop.become(errand.uid, errand.gid, errand.user)
            drop.bound(errand.seconds)
        except drop.Refused as refusal:
            _send(writer, Found(notes=(f"the job's files are not read: {refusal}",)))
            os.write(writer, _LENGTH.pack(0))
            return
        for found in work(errand, notes, deadline):
            _send(writer, found)
        os.write(writer, _LENGTH.pack(0))
    except BaseException as error:  # noqa: BLE001 - whatever broke is told
        _send(writer, Found(notes=(f"reading the job's files broke: {type(error).__name__}",)))
    finally:
        os._exit(0)


def _prepared() -> Work:
    """Everything that is imported or loaded from our own folder, which a user may not be able to
    read. No file of the user's is touched yet.
    """
    from epilog.reader.gather import gather
    from epilog.signatures import load

    catalogue = load()
    try:
        import hyperscan  # noqa: F401
    except ImportError:
        pass

    def work(errand: Errand, notes: list[str], deadline: float) -> Iterator[Found]:
        return gather(errand, notes, deadline, catalogue)

    return work


def _detach() -> None:
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def _send(fd: int, found: Found) -> None:
    answer = msgspec.msgpack.encode(found)
    data = memoryview(_LENGTH.pack(len(answer)) + answer)
    while data:
        data = data[os.write(fd, data) :]


def _parts(data: bytes) -> tuple[list[Found], list[str], bool]:
    """The whole messages, notes, and whether the child said that it was through.

    A message that is damaged ends the reading.
    """
    parts: list[Found] = []
    at = 0
    while len(data) - at >= _LENGTH.size:
        size = _LENGTH.unpack_from(data, at)[0]
        at += _LENGTH.size
        if size == 0:
            return parts, [], True
        if size > len(data) - at:
            break
        try:
            parts.append(msgspec.msgpack.decode(data[at : at + size], type=Found))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return parts, [f"the reader's answer is damaged: {str(error)[:200]}"], False
        at += size
    return parts, [], False


def _merged(parts: list[Found], notes: list[str]) -> Found:
    whole = Found()
    for part in parts:
        changes = {
            name: getattr(part, name)
            for name in ("scan", "recorder", "files")
            if getattr(part, name) != getattr(Found(), name)
        }
        whole = msgspec.structs.replace(whole, **changes, notes=(*whole.notes, *part.notes))
    return msgspec.structs.replace(whole, notes=(*whole.notes, *notes))
