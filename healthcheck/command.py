"""Running another program without ever being held by it.

A program that touches a sick driver can sleep in the kernel where no signal reaches it;
`subprocess.run(timeout=…)` then waits for ever. Even starting one can hang, where its file lies
on a network mount whose server is gone: `subprocess.Popen` waits for exec without a limit, so
the fork is our own. The program gets a session of its own, its output goes to unnamed memory
files of bounded size, and one that does not die is left behind.
"""

import errno
import fcntl
import os
import select
import signal
import time
from collections.abc import Mapping
from typing import NoReturn

from healthcheck.host import Completed

MAX_OUTPUT = 8 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GRACE_S = 0.5
_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 2, 4


def run_command(
    argv: list[str],
    timeout: float,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> Completed:
    """Run `argv` for at most `timeout` seconds (+ GRACE_S to die); never through a shell.

    The environment is PATH, LC_ALL=C and what `env` adds. `code` is the exit status, -N where
    signal N ended the program, None where it had to be killed for its time, whether or not it
    died of it. A program that writes more than MAX_OUTPUT bytes to one stream gets an error from
    the write, and the first MAX_OUTPUT bytes are kept. Raises FileNotFoundError, PermissionError
    and other OSErrors as exec does, ValueError for an empty command or one with NUL bytes.
    """
    if not argv or any("\0" in word for word in argv):
        raise ValueError(f"expected a command without NUL bytes, found {argv!r}")
    full = {"PATH": PATH, "LC_ALL": "C", **(env or {})}
    opened: list[int] = []
    try:
        source = _input(stdin)
        opened.append(source)
        out, err = _output(), _output()
        opened += [out, err]
        code = _run(argv, full, (source, out, err), time.monotonic() + timeout)
        return Completed(code, _read(out), _read(err))
    finally:
        for fd in opened:
            os.close(fd)


def _run(
    argv: list[str], env: dict[str, str], streams: tuple[int, int, int], until: float
) -> int | None:
    """Start and wait. The exit status, or None where the time was up."""
    failed, failing = os.pipe()
    try:
        try:
            pid = os.fork()
            if pid == 0:
                _exec(argv, env, streams, failing)
        finally:
            os.close(failing)
        # Closed by exec, so its end says that the program runs; a number says why it does not.
        told = _first_word(failed, until)
    finally:
        os.close(failed)
    if told:
        os.waitpid(pid, 0)
        code = int(told)
        raise OSError(code, os.strerror(code), argv[0])
    return _wait(pid, until)


def _exec(
    argv: list[str], env: dict[str, str], streams: tuple[int, int, int], failing: int
) -> NoReturn:
    """The child: become the program. Nothing here may return to the caller's code."""
    code = errno.EIO
    try:
        os.setsid()
        # Out of the way of 0, 1 and 2, which a caller with closed streams may have handed out.
        failing = fcntl.fcntl(failing, fcntl.F_DUPFD_CLOEXEC, 3)
        for target, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 3) for fd in streams]):
            os.dup2(fd, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.closerange(3, failing)
        os.closerange(failing + 1, _highest_fd() + 1)
        os.execvpe(argv[0], argv, env)  # noqa: S606 - a list, no shell, a fixed environment
    except OSError as error:
        code = error.errno or code
    finally:
        os.write(failing, str(code).encode())
        os._exit(127)


def _highest_fd() -> int:
    try:
        return max(int(name) for name in os.listdir("/proc/self/fd"))
    except (OSError, ValueError):
        return 1024


def _first_word(fd: int, until: float) -> bytes:
    """What the child wrote before exec closed the pipe; nothing where the time is up first."""
    return os.read(fd, 16) if _ready(fd, until) else b""


def _ready(fd: int, until: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(max(0, int((until - time.monotonic()) * 1000 + 0.999))))


def _wait(pid: int, until: float) -> int | None:
    """Exit status of the child, or None after it was killed or left behind."""
    code = _ended(pid, until)
    if code is not None:
        return code
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            # Its session is not made yet, or it has just ended.
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        if _ended(pid, time.monotonic() + GRACE_S / 2) is not None:
            # What it had started in its session goes with it.
            _kill_group(pid)
            break
    return None


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _ended(pid: int, until: float) -> int | None:
    """Wait until the child ends or the time is up; its exit status where it ended."""
    handle = _pidfd(pid)
    try:
        pause = 0.001
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= until:
                return None
            if handle is not None:
                _ready(handle, until)
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, 0.05)
    finally:
        if handle is not None:
            os.close(handle)


def _pidfd(pid: int) -> int | None:
    """A handle that becomes readable when the process ends; None before Linux 5.3."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _input(data: bytes | None) -> int:
    """A descriptor to read `data` from; a file and not a pipe, so that nobody waits for it."""
    if data is None:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _output() -> int:
    """A memory file of MAX_OUTPUT bytes that cannot grow; it takes memory only as it is filled."""
    fd = os.memfd_create("output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, MAX_OUTPUT)
    fcntl.fcntl(fd, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
    return fd


def _read(fd: int) -> str:
    """What was written: the program shares the offset of our descriptor."""
    length = min(os.lseek(fd, 0, os.SEEK_CUR), MAX_OUTPUT)
    return os.pread(fd, length, 0).decode("utf-8", "replace")
