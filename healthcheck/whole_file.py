"""Writing a small file whole or not at all, whatever kills us in between.

The draft has one name, and a lock that the kernel drops with the process: a writer that is killed
leaves at most one draft, which the next one writes over. Imported by every prolog, so little is
imported here.
"""

import fcntl
import os
import stat
import time

LOCK_WAIT_S = 0.2


def write_whole(path: str, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace `path`: a reader sees the old content or the new one. Raises OSError.

    `mode` holds whatever the umask. `durable`: on disk before it returns, for what a node's next
    moment may take away. Writers at the same time wait up to LOCK_WAIT_S for each other.
    """
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.draft"
    fd = _locked_draft(draft, mode)
    try:
        os.ftruncate(fd, 0)
        os.fchmod(fd, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if durable:
            os.fdatasync(fd)
        os.replace(draft, path)
    except OSError:
        discard(draft)
        raise
    finally:
        os.close(fd)
    if durable:
        _settle(folder)


def discard(path: str) -> None:
    """Remove a file if it is there and can be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _locked_draft(draft: str, mode: int) -> int:
    """The draft, open, ours alone; never somebody else's file that lies there by its name."""
    until = time.monotonic() + LOCK_WAIT_S
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        fd = os.open(draft, flags, mode)
        try:
            about = os.fstat(fd)
            if (
                not stat.S_ISREG(about.st_mode)
                or about.st_nlink > 1
                or about.st_uid != os.geteuid()
            ):
                raise FileExistsError(17, "something that flightcheck did not write", draft)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(draft, about):
                return fd
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(fd)
                raise
            time.sleep(0.002)
        except OSError:
            os.close(fd)
            raise
        # Its writer was done with it: that is the file itself by now.
        os.close(fd)


def _is_at(path: str, about: os.stat_result) -> bool:
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (about.st_dev, about.st_ino)


def _settle(folder: str) -> None:
    """The new name survives a power cut too."""
    fd = os.open(folder or "/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
