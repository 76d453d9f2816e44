"""Running another program without ever being held by it.

A program that touches a sick driver can sleep in the kernel where no signal reaches it;
`subprocess.run(timeout=…)` then waits for ever. Here the program gets a session of its own, its
output goes to unnamed files, and one that does not die is left behind.
"""

import os
import signal
import subprocess  # noqa: TID251 - this is the door
import tempfile
import time
from collections.abc import Mapping

from healthcheck.host import Completed

MAX_OUTPUT = 8 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GRACE_S = 0.5
_CODE_ABANDONED = None


def run_command(
    argv: list[str],
    timeout: float,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> Completed:
    """Run `argv` for at most `timeout` seconds (+ GRACE_S to die); never through a shell.

    The environment is PATH, LC_ALL=C and what `env` adds. `code` is None where the program had
    to be killed, whether or not it died of it. Output past MAX_OUTPUT bytes is dropped. Raises
    FileNotFoundError and PermissionError as exec does.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(  # noqa: S603 - a list, no shell, fixed environment
            argv,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={"PATH": PATH, "LC_ALL": "C", **(env or {})},
            start_new_session=True,
            close_fds=True,
        )
        if process.stdin is not None and stdin is not None:
            _feed(process, stdin)
        code = _wait(process, timeout)
        return Completed(code, _read(out.fileno()), _read(err.fileno()))


def _feed(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    """Hand over a small input; it fits a pipe's buffer, so this never blocks."""
    assert process.stdin is not None
    try:
        process.stdin.write(data[:65_536])
        process.stdin.close()
    except BrokenPipeError:
        pass


def _wait(process: "subprocess.Popen[bytes]", timeout: float) -> int | None:
    code = _poll(process, time.monotonic() + timeout)
    if code is not None:
        return code
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sig)
        except ProcessLookupError:
            pass
        if _poll(process, time.monotonic() + GRACE_S / 2) is not None:
            break
    else:
        # Unkillable: keep Popen's destructor from waiting or warning about it.
        process.returncode = -signal.SIGKILL
    return _CODE_ABANDONED


def _poll(process: "subprocess.Popen[bytes]", until: float) -> int | None:
    pause = 0.001
    while True:
        code = process.poll()
        if code is not None or time.monotonic() >= until:
            return code
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def _read(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    data = b""
    while len(data) < MAX_OUTPUT and (chunk := os.read(fd, 1 << 20)):
        data += chunk
    return data.decode("utf-8", "replace")
