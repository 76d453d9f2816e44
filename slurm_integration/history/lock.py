"""One collect at a time on a host."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


class Busy(Exception):  # noqa: N818 - an answer, not an error
    """Another collect has the lock."""


@contextmanager
def only_one(path: str) -> Iterator[None]:
    """Hold the lock file; Busy where another process does. The kernel drops it with its holder."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(path) from None
        yield
    finally:
        os.close(fd)
