"""Opening a file that a user named: regular, the user's own, no link, never blocking."""

import os
import stat
from typing import BinaryIO

FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Unfit(Exception):  # noqa: N818 - an answer, not an error
    """The file is not read; the text says why, without its path."""


class Opened:
    """An open file, its size and its time of change when it was opened."""

    def __init__(self, path: str, fd: int, size: int, changed_at: float) -> None:
        self.path = path
        self.file: BinaryIO = os.fdopen(fd, "rb", buffering=0)
        self.size = size
        self.changed_at = changed_at


def open_users(path: str, uid: int) -> Opened:
    """Open `path` for reading. Raises Unfit, never OSError.

    Meant for a process that has the user's rights: the checks keep out what the user may read but
    has not written, and what would hold or harm the reader.
    """
    try:
        _check(os.lstat(path), uid)  # opening a device can already do something
        fd = os.open(path, FLAGS)
    except OSError as error:
        raise Unfit(_words(error)) from None
    try:
        status = os.fstat(fd)
        _check(status, uid)
    except BaseException:
        os.close(fd)
        raise
    return Opened(path, fd, status.st_size, status.st_mtime)


def _check(status: os.stat_result, uid: int) -> None:
    for is_kind, name in _KINDS:
        if is_kind(status.st_mode):
            raise Unfit(f"expected a regular file, found {name}")
    if status.st_uid != uid:
        raise Unfit(f"expected a file of the job's user, found one of uid {status.st_uid}")


def _words(error: OSError) -> str:
    return error.strerror or type(error).__name__
