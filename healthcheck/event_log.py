"""The node's own log of events: append-only, bounded, and whole after a crash.

One line an event: `crc32 length milliseconds json`, the time being that of the recording. Writers
append with one write(2) under a lock that is waited for a moment only; a line that a crash cut
short fails its sum and is dropped. Two files of MAX_BYTES: the older one goes when the newer is
full. Each begins with a line that says since when it was written.

On disk before `record` returns (fdatasync): a node often dies right after its first sign.
"""

import fcntl
import os
import re
import time
from collections.abc import Sequence
from zlib import crc32

import msgspec

from healthcheck.node_event import NodeEvent
from healthcheck.own_folder import check_folder, own_folder
from healthcheck.strict_json import decode_json
from healthcheck.whole_file import write_whole

FILE = "events.log"
OLDER = "events.log.1"
MAX_BYTES = 4 << 20
LOCK_WAIT_S = 0.1
TAIL_BYTES = 64 << 10
"""A line is never longer."""
_HEAD = re.compile(rb"^# flightcheck-events 1 (\d{1,15})\n")


class Page(msgspec.Struct, frozen=True):
    """Events, oldest first; `now` (unix seconds by this node's clock) is what to ask from next.

    `lost`: events since then were pushed out by newer ones. `broken`: lines that a crash cut or
    a disk changed.
    """

    events: tuple[NodeEvent, ...]
    now: float
    lost: bool = False
    broken: int = 0


def record(folder: str, events: Sequence[NodeEvent]) -> str | None:
    """Append `events`. None, or a note for the reader where they could not be kept."""
    path = f"{folder}/{FILE}"
    try:
        own_folder(folder)
        fd = _open(path)
        try:
            locked = _locked(fd)
            if locked:
                fd = _turned_over(folder, path, fd)
            return _append(fd, path, events, locked)
        finally:
            os.close(fd)
    except OSError as error:
        return f"{path}: {error.strerror}; {len(events)} events were not kept"


def read_since(folder: str, since: float = 0.0) -> Page:
    """The events recorded at or after `since` (unix seconds): twice rather than not at all.

    Raises OSError where the log cannot be read; no log has no events.
    """
    now = time.time()
    # The newer first: where it is turned over in between, it is read twice and nothing skipped.
    newer, older = _read(f"{folder}/{FILE}"), _read(f"{folder}/{OLDER}")
    events: dict[str, NodeEvent] = {}
    broken = 0
    for data in (older, newer) if older != newer else (newer,):
        for line in data.split(b"\n"):
            if not line or _HEAD.match(line + b"\n"):
                continue
            recorded, event = _parse(line)
            if event is None:
                broken += 1
            elif recorded >= int(since * 1000):
                events[event.id] = event
    head = _HEAD.match(older)
    lost = head is not None and int(head[1]) > int(since * 1000) > 0
    return Page(tuple(events.values()), now, lost, broken)


def replace_file(path: str, data: bytes) -> str | None:
    """Write a small file so that a reader sees the old one or the new one. A note on failure."""
    try:
        check_folder(os.path.dirname(path))
        write_whole(path, data)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def _line(event: NodeEvent, milliseconds: int) -> bytes:
    body = b"%d %s" % (milliseconds, msgspec.json.encode(event))
    return b"%08x %d %s\n" % (crc32(body), len(body), body)


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def _locked(fd: int) -> bool:
    """Whether the lock was got. Without it a line may still be appended, which is atomic."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)
        else:
            return True


def _turned_over(folder: str, path: str, fd: int) -> int:
    """The file to append to: another one where this is full, or was turned over by another."""
    for _ in range(3):
        now = os.fstat(fd)
        try:
            current = os.stat(path)
            ours = (current.st_dev, current.st_ino) == (now.st_dev, now.st_ino)
        except FileNotFoundError:
            ours = False
        if ours and now.st_size < MAX_BYTES:
            break
        if ours:
            os.replace(path, f"{folder}/{OLDER}")
        fresh = _open(path)
        os.close(fd)
        fd = fresh
        if not _locked(fd):
            break
    return fd


def _append(fd: int, path: str, events: Sequence[NodeEvent], locked: bool) -> str | None:
    size = os.fstat(fd).st_size
    tail = os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES))
    # A clock that was set back must not hide new lines from whoever asks by time.
    now = max(int(time.time() * 1000), _last_recorded(tail))
    data = b"".join(_line(event, now) for event in events)
    if not tail:
        first = not os.path.exists(f"{path}.1")
        data = b"# flightcheck-events 1 %d\n" % (0 if first else now) + data
    elif not tail.endswith(b"\n"):
        data = b"\n" + data  # ends the line that a crash cut
    written = os.write(fd, data)
    if written < len(data):
        if locked:  # or the next look, which tells them again, would double some
            os.ftruncate(fd, size)
        return f"{path}: {written} of {len(data)} bytes written: the disk is full; events not kept"
    os.fdatasync(fd)
    return None


def _last_recorded(tail: bytes) -> int:
    for line in reversed(tail.split(b"\n")[-4:]):
        recorded, event = _parse(line)
        if event is not None:
            return recorded
    return 0


def _read(path: str) -> bytes:
    """Whole lines. The tail of a file may still be being written."""
    try:
        with open(path, "rb") as log:
            data = log.read(MAX_BYTES * 4)
    except FileNotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def _parse(line: bytes) -> tuple[int, NodeEvent | None]:
    """When a line was recorded, and its event; None where sum, length or form is not right."""
    total, _, rest = line.partition(b" ")
    length, _, body = rest.partition(b" ")
    recorded, _, text = body.partition(b" ")
    try:
        if int(length) != len(body) or int(total, 16) != crc32(body):
            return 0, None
        return int(recorded), decode_json(text, NodeEvent)
    except (ValueError, msgspec.MsgspecError):
        return 0, None
