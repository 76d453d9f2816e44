"""What a failure on the way to a host means for its answer."""

import errno
import os
import socket
import time

import paramiko  # noqa: TID251 - part of the ssh transport

from slurm_integration.sweep.model import Answer
from slurm_integration.sweep.transports.ssh.endpoint import Endpoint

_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


class NoAnswer(Exception):  # noqa: N818 - an answer, not an error
    """This host gives no report; the text says why."""

    def __init__(self, answer: Answer, detail: str) -> None:
        super().__init__(detail)
        self.answer = answer
        self.detail = detail


def failed(error: Exception, there: Endpoint, until: float, *, connected: bool) -> NoAnswer:
    """What a failure on the way to a shell means."""
    where = f"{there.host}:{there.port}"
    late = time.monotonic() >= until - 0.05 or isinstance(error, TimeoutError)
    if isinstance(error, socket.gaierror):
        return NoAnswer(Answer.UNREACHABLE, f"no address for {there.host}: {error.strerror}")
    if isinstance(error, ConnectionRefusedError):
        return NoAnswer(Answer.REFUSED, f"nothing listens on {where}")
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return NoAnswer(Answer.UNREACHABLE, f"{where}: {os.strerror(error.errno or 0)}")
    if late and not connected:
        return NoAnswer(Answer.UNREACHABLE, f"nobody answers at {where}")
    if late:
        return NoAnswer(Answer.TIMED_OUT, f"{where} accepted the connection, then fell silent")
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return NoAnswer(Answer.REFUSED, f"no common ssh algorithm with {where}: {error}")
    if isinstance(error, FileNotFoundError | PermissionError):
        return NoAnswer(Answer.UNREACHABLE, f"ProxyCommand: {error.filename}: {error.strerror}")
    if "Indecipherable" in str(error):
        return NoAnswer(Answer.GARBAGE, f"{where} does not speak ssh")
    if "banner" in str(error):
        detail = f"{where} hung up without a greeting: no sshd, or one with too many callers"
        return NoAnswer(Answer.REFUSED, detail)
    return NoAnswer(Answer.REFUSED, f"{where} hung up: {words(error)}")


def words(error: Exception) -> str:
    """Its text, or its kind where it has none."""
    return str(error) or type(error).__name__
