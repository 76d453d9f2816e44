"""Seats of the drain budget in a folder that all nodes share: one read and one update a node.

A seat is a file `seat-00000017`, made with O_EXCL: of a thousand nodes that want the same number
exactly one gets it, and who gets it has met every lower one. A node therefore

1. reads all nodes from Slurm, and knows from them how many seats are left;
2. takes the next number, unless as many living seats below it as are left belong to nodes that
   were not drained yet when it looked;
3. drains. Whoever comes later counts the drain or the seat.

Nothing waits, so a slow controller costs no seat. A seat is living for SEAT_LIFE_S: by then its
node is drained and Slurm's own list counts it, or its prolog died. One whose drain was left to
Slurm (its reason is not ours) is marked and counts for a whole window.

Ages are this node's clock against the file server's, which may be SEAT_LIFE_S less a prolog's
length apart. The highest number is never removed, so numbers only grow.
"""

import os
import select
import signal
import stat
import time
from collections.abc import Collection, Iterable

import msgspec

SEAT_LIFE_S = 900.0
_REMOVE_S = 86_400.0
"""Far longer than any client of a network file system remembers a folder's old contents."""
_REMOVED_AT_ONCE = 64
_PREFIX = "seat-"
_LEFT = "left-to-slurm"
_MAX_ANSWER = 4096


class SeatsError(Exception):
    """The folder can't be used; the text says why and what is expected of it."""


class Seat(msgspec.Struct, frozen=True):
    """`ticket` is None where none was left; `ahead`: living seats of nodes not yet drained."""

    ticket: int | None
    ahead: int


def take_seat(
    folder: str, node: str, left: int, drained: Collection[str], window_s: float, until: float
) -> Seat:
    """A seat for `node`, where fewer than `left` others are ahead of it.

    `drained`: nodes that Slurm already showed as drained by us, when `left` was counted. In a
    child, since a file server may never answer; `until` is in `time.monotonic()` seconds. Raises
    SeatsError.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            answer: Seat | str
            try:
                answer = _take(folder, node, left, frozenset(drained), window_s)
            except (OSError, SeatsError) as error:
                answer = str(error) or type(error).__name__
            os.write(writer, msgspec.json.encode(answer)[:_MAX_ANSWER])
        finally:
            os._exit(0)
    os.close(writer)
    try:
        data = _await(reader, until)
    finally:
        os.close(reader)
        _end(pid)
    if not data:
        raise SeatsError(f"{folder} did not answer in time")
    try:
        told = msgspec.json.decode(data, type=Seat | str)
    except msgspec.MsgspecError as error:
        raise SeatsError(f"{folder}: odd answer: {error}") from error
    if isinstance(told, str):
        raise SeatsError(told)
    return told


def leave_to_slurm(folder: str, ticket: int, until: float) -> None:
    """Mark a seat whose node Slurm drains by itself. Best effort, never longer than `until`."""
    pid = os.fork()
    if pid == 0:
        try:
            fd = os.open(f"{folder}/{_name(ticket)}", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            os.write(fd, f" {_LEFT}".encode())
        finally:
            os._exit(0)
    while time.monotonic() < until and os.waitpid(pid, os.WNOHANG) == (0, 0):
        time.sleep(0.002)
    _end(pid)


def _await(reader: int, until: float) -> bytes:
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    left = max(0.0, until - time.monotonic())
    return os.read(reader, _MAX_ANSWER) if poller.poll(left * 1000) else b""


def _end(pid: int) -> None:
    """Kill and reap; a child held in the kernel is left behind."""
    try:
        os.kill(pid, signal.SIGKILL)
        for _ in range(20):
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                return
            time.sleep(0.001)
    except (ProcessLookupError, ChildProcessError):
        pass


def _take(folder: str, node: str, left: int, drained: frozenset[str], window_s: float) -> Seat:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    _check(folder, os.fstat(fd))
    now = time.time()
    done = drained | {node}
    numbers = _numbers(os.listdir(fd))
    ahead = 0
    for number in reversed(numbers):
        age = now - _age_mark(fd, number)
        if age > max(SEAT_LIFE_S, window_s) or ahead >= left:
            break
        ahead += _rival(fd, number, age, done, window_s)
    ticket = numbers[-1] if numbers else 0
    while ahead < left:
        ticket += 1
        try:
            made = os.open(_name(ticket), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=fd)
        except FileExistsError:
            ahead += _rival(fd, ticket, 0.0, done, window_s)
            continue
        os.write(made, node.encode())
        os.close(made)
        _tidy(fd, numbers, now)
        return Seat(ticket, ahead)
    return Seat(None, ahead)


def _check(folder: str, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SeatsError(
            f"{folder}: expected a folder of root that nobody else may write, found owner "
            f"{found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}: chmod 700 it"
        )


def _name(ticket: int) -> str:
    return f"{_PREFIX}{ticket:08d}"


def _numbers(names: Iterable[str]) -> list[int]:
    found = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
    return sorted(int(text) for text in found if text.isascii() and text.isdigit())


def _age_mark(fd: int, ticket: int) -> float:
    return os.stat(_name(ticket), dir_fd=fd, follow_symlinks=False).st_mtime


def _rival(fd: int, ticket: int, age_s: float, done: frozenset[str], window_s: float) -> bool:
    """Whether this seat's node may still drain, or was drained where Slurm does not show it."""
    seat = os.open(_name(ticket), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
    try:
        owner, _, mark = os.read(seat, 512).decode("utf-8", "replace").partition(" ")
    finally:
        os.close(seat)
    if mark == _LEFT:
        return age_s <= max(SEAT_LIFE_S, window_s)
    # An empty one is just being written: somebody's, so it counts.
    return age_s <= SEAT_LIFE_S and owner not in done


def _tidy(fd: int, numbers: list[int], now: float) -> None:
    """Remove what is old; never the highest."""
    for number in numbers[:-1][:_REMOVED_AT_ONCE]:
        try:
            if now - _age_mark(fd, number) <= _REMOVE_S:
                return
            os.unlink(_name(number), dir_fd=fd)
        except OSError:
            return
