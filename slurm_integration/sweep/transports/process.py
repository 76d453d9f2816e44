"""A child process read as it writes, ended at a deadline or when the sweep stops."""

import os
import select
import signal
import subprocess  # noqa: TID251 - one of slurm_integration's doors
import threading
import time
from collections.abc import Callable, Mapping

_LOOK_S = 0.1
_GRACE_S = 2.0


class Ended(Exception):  # noqa: N818 - an answer, not an error
    """The process was ended before its end; `why` is time-out, stopped or enough."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def follow(
    argv: list[str],
    environment: Mapping[str, str],
    deadline: float,
    stop: threading.Event,
    on_output: Callable[[bytes], bool],
    on_error: Callable[[bytes], None],
) -> int:
    """Run it, handing over its output as it comes; the exit code.

    `on_output` returns False when it has had enough. Raises Ended, and OSError where the program
    can't be started. Everything it started is ended in every case.
    """
    process = subprocess.Popen(  # noqa: S603 - a list, no shell
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd="/",
        # Ctrl-C is ours to handle: the child must not see it before we have taken what arrived.
        start_new_session=True,
    )
    try:
        _read(process, deadline, stop, on_output, on_error)
        return process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Ended("time-out") from None
    finally:
        _end(process)


def _read(
    process: "subprocess.Popen[bytes]",
    deadline: float,
    stop: threading.Event,
    on_output: Callable[[bytes], bool],
    on_error: Callable[[bytes], None],
) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.fileno(), process.stderr.fileno()
    poll = select.poll()
    for fd in (out, err):
        poll.register(fd, select.POLLIN | select.POLLHUP)
    living = {out, err}
    while living:
        if stop.is_set():
            raise Ended("stopped")
        if time.monotonic() >= deadline:
            raise Ended("time-out")
        ready = poll.poll(_LOOK_S * 1000)
        if not ready and process.poll() is not None:
            return  # a grandchild holds the pipe
        for fd, _ in ready:
            chunk = os.read(fd, 65536)
            if not chunk:
                poll.unregister(fd)
                living.discard(fd)
            elif fd == err:
                on_error(chunk)
            elif not on_output(chunk):
                raise Ended("enough")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask everything it started to end, then make it."""
    if process.poll() is None or _session(process.pid):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in _session(process.pid):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            if _ended(process):
                break
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _ended(process: "subprocess.Popen[bytes]") -> bool:
    until = time.monotonic() + _GRACE_S
    while time.monotonic() < until:
        if process.poll() is not None and not _session(process.pid):
            return True
        time.sleep(0.02)
    return False


def _session(leader: int) -> list[int]:
    """Living processes of its session. Its group is not enough: timeout(1) makes its own."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # After the name in parentheses: state, parent, group, session.
                state, _, _, session = file.read(4096).rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state not in (b"Z", b"X"):
            found.append(int(name))
    return found
