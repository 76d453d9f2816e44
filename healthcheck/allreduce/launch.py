"""Starting the child so that nothing it does can hold us, and leaving it behind if it must be.

It gets a session of its own, its output goes to a memory file of bounded size, its messages come
through a pipe that is never waited for without a limit, and its ranks' states lie in shared
memory, readable after they stopped or died. Even the start may hang (an interpreter on a dead
mount), so nobody waits for that either.
"""

import fcntl
import json
import mmap
import os
import signal
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from healthcheck.allreduce.worker.talk import SLOT, State, read_slot

MAX_LOCAL = 256
MAX_OUTPUT = 8 << 20
MAX_LINE = 1 << 16
_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 2, 4
KILL_GRACE_S = 1.0


class Child:
    """A running child. `started` is monotonic."""

    def __init__(self, interpreter: str, script: str, env: Mapping[str, str]) -> None:
        self.started = time.monotonic()
        self.closed = False
        self._ended = False
        self._buffer = b""
        self._slots = _memory(MAX_LOCAL * SLOT)
        self._memory = mmap.mmap(self._slots, MAX_LOCAL * SLOT)
        self._output = _memory(MAX_OUTPUT)
        self._reader, writer = os.pipe()
        plan_end, self._plan = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _exec(interpreter, script, dict(env), (plan_end, self._output, writer, self._slots))
        os.close(writer)
        os.close(plan_end)
        os.set_blocking(self._reader, False)
        os.set_blocking(self._plan, False)

    def fileno(self) -> int:
        """The messages' read end, for poll."""
        return self._reader

    def send(self, plan: Mapping[str, Any]) -> None:
        """Hand the plan over. A child that is gone already is noticed by its messages."""
        try:
            os.write(self._plan, json.dumps(plan).encode() + b"\n")
        except (BrokenPipeError, BlockingIOError):
            pass

    def messages(self) -> list[dict[str, Any]]:
        """What has come since the last call. Lines that are no message are passed over."""
        try:
            while chunk := os.read(self._reader, 1 << 16):
                self._buffer += chunk
                if len(self._buffer) > 64 * MAX_LINE:
                    break
            else:
                self.closed = True
        except BlockingIOError:
            pass
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > MAX_LINE:
            self._buffer = b""
        return [message for line in lines if (message := _decode(line)) is not None]

    def state(self, local: int) -> State:
        """What a rank's slot says."""
        return read_slot(self._memory, local)

    def output(self) -> str:
        """What the child and its ranks wrote to their standard output and error."""
        length = min(os.lseek(self._output, 0, os.SEEK_CUR), MAX_OUTPUT)
        return os.pread(self._output, length, 0).decode("utf-8", "replace")

    def end(self) -> bool:
        """Kill what is left of it; False where it would not die and was left behind."""
        if self._ended:
            return True
        self._ended = True
        for fd in (self._plan, self._reader):
            os.close(fd)
        for target in (os.killpg, os.kill):
            try:
                target(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        until = time.monotonic() + KILL_GRACE_S
        gone = os.waitpid(self.pid, os.WNOHANG)[0] != 0
        while not gone and time.monotonic() < until:
            time.sleep(0.005)
            gone = os.waitpid(self.pid, os.WNOHANG)[0] != 0
        self._memory.close()
        os.close(self._slots)
        os.close(self._output)
        return gone


def process_state(pid: int) -> str:
    """The kernel's letter for a process (R, S, D, T, Z), or `gone`."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(512).rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError, UnicodeDecodeError):
        return "gone"


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and isinstance(message.get("t"), str) else None


def _memory(size: int) -> int:
    """A memory file of fixed size; it takes memory only as it is filled."""
    fd = os.memfd_create("allreduce", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
    return fd


def _exec(
    interpreter: str, script: str, env: dict[str, str], fds: tuple[int, int, int, int]
) -> NoReturn:
    """The forked child: become the interpreter, or say through the messages why not."""
    plan_end, output, writer, slots = fds
    try:
        os.setsid()
        # Above everything that is overwritten or closed next.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for fd in (plan_end, output, writer, slots)]
        for target, fd in enumerate((high[0], high[1], high[1], high[2], high[3])):
            os.dup2(fd, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.closerange(5, 4096)
        os.chdir("/")
        # -I: neither PYTHON* nor the user's site-packages nor the current folder.
        os.execve(interpreter, [interpreter, "-I", "-u", script, "3", "4"], env)  # noqa: S606 - a list, no shell, a clean environment
    except OSError as error:
        told = {
            "t": "error", "kind": "start", "cause": "interpreter",
            "reason": f"{interpreter}: {error.strerror}; set [allreduce] interpreter (or "
            "--interpreter) to a Python that has torch",
        }  # fmt: skip
        os.write(3, json.dumps(told).encode() + b"\n")
    finally:
        os._exit(127)
