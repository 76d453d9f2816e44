"""A hook of Slurm at work in a child, so that nothing holds or kills what slurmd waits for.

slurmd drains a node whose hook exits non-zero, is killed, or keeps its output open too long. A
dying disk holds a process in the kernel for ever, a broken library kills it with a signal, the
kernel may choose it when memory is short: none of that is a finding (law 2). The process that
slurmd started therefore does nothing but relay the child's words, and answer in time.
"""

import mmap
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable

from healthcheck.entry import leave, say

FIRST_LIMIT_S = 20.0
"""Until the hook has read from its configuration how long it may take."""
GRACE_S = 1.0
"""The hook keeps its deadline by itself; this much later it is taken for stuck."""
_LOOK_S = 0.25
_DEADLINE, _CODE = struct.Struct("<d"), struct.Struct("<i")
_slot: mmap.mmap | None = None
"""Shared with the child: when its time is up, and what it has decided so far."""


def promise(deadline: float) -> None:
    """For the hook: it will be done by `deadline` (time.monotonic)."""
    if _slot is not None:
        _DEADLINE.pack_into(_slot, 0, deadline + GRACE_S)


def decided(code: int) -> None:
    """For the hook: it has acted and will exit with `code`; what follows is only for memory."""
    if _slot is not None:
        _CODE.pack_into(_slot, _DEADLINE.size, code)


def guarded(hook: Callable[[], int], name: str) -> int:
    """Run `hook` in a child and relay what it says; its exit code.

    Where it gave none, the code it had decided on (0 before it had), and a line that says why.
    """
    global _slot  # noqa: PLW0603 - one hook a process
    _slot = mmap.mmap(-1, mmap.PAGESIZE)
    _DEADLINE.pack_into(_slot, 0, time.monotonic() + FIRST_LIMIT_S)
    pipes = [os.pipe(), os.pipe()]
    spare = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)  # where file handles are short
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        for target, (reader, writer) in enumerate(pipes, 1):
            os.close(reader)
            os.dup2(writer, target)
            os.close(writer)
        # What is said before something holds us gets through.
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        leave(hook())
    signal.signal(signal.SIGTERM, lambda number, _: _pass_on(pid, number))
    for handle in (spare, *(writer for _, writer in pipes)):
        os.close(handle)
    return _watch(pid, {pipes[0][0]: 1, pipes[1][0]: 2}, name)


def _watch(pid: int, relays: dict[int, int], name: str) -> int:
    """Relay until the child has ended or its time is up."""
    end = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(end, select.POLLIN)
    for reader in relays:
        os.set_blocking(reader, False)
        poller.register(reader, select.POLLIN)
    ended = late = False
    while not ended:
        if late:
            return _given_up(pid, name)
        assert _slot is not None
        left = _DEADLINE.unpack_from(_slot, 0)[0] - time.monotonic()
        late = left <= 0  # a child that has ended by now is heard, however late we come
        for fd, _ in poller.poll(0 if late else int(min(left, _LOOK_S) * 1000) + 1):
            ended = ended or fd == end
            if fd in relays and not _relay(fd, relays[fd]):
                poller.unregister(fd)
    for reader, target in relays.items():
        while _relay(reader, target):
            pass
    return _code(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), name)


def _relay(reader: int, target: int) -> bool:
    """Pass on what is there; False where nothing more will come now."""
    try:
        data = os.read(reader, 1 << 16)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
    except OSError:
        return False
    return bool(data)


def _code(code: int, name: str) -> int:
    if code >= 0:
        return code
    say(f"unknown: the {name} died of signal {-code}, which is no finding; nothing more was done")
    return _so_far()


def _given_up(pid: int, name: str) -> int:
    where = _stuck_in(pid)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    say(
        f"unknown: the {name} did not end by its deadline ({where}) and was left behind; nothing "
        "more was done. A disk or mount that does not answer is the usual cause."
    )
    return _so_far()


def _so_far() -> int:
    assert _slot is not None
    return int(_CODE.unpack_from(_slot, _DEADLINE.size)[0])


def _stuck_in(pid: int) -> str:
    """The child's state, and the place in the kernel where it sleeps."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read(512).rpartition(b")")[2].split()[0].decode()
        with open(f"/proc/{pid}/wchan", "rb") as file:
            place = file.read(64).decode("ascii", "replace").strip("0")
    except (OSError, IndexError):
        return "it cannot be looked at"
    return f"state {state} in {place}" if place else f"state {state}"


def _pass_on(pid: int, number: int) -> None:
    """Slurm wants us to end: the child says so and ends, or its time is up soon."""
    promise(time.monotonic())
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
