"""Who can change a file, who can get at it, and what is in it."""

import os
import stat

MAX_SCRIPT = 65_536


def loose(path: str, *, owner: int = 0) -> tuple[str, ...]:
    """What of a path (itself and the folders above) others than `owner` and root can change.

    In words: `/etc/slurm is mode 0777`. A sticky folder such as /tmp does not count, what lies in
    it is judged by itself. Links are followed: what they lead to is judged as well.
    """
    told: dict[str, None] = {}
    for one in dict.fromkeys((*_chain(os.path.abspath(path)), *_chain(os.path.realpath(path)))):
        try:
            state = os.lstat(one)
        except OSError:
            continue
        if stat.S_ISLNK(state.st_mode):
            if state.st_uid not in (0, owner):
                told[f"{one} belongs to uid {state.st_uid}"] = None
            continue
        writable = state.st_mode & 0o002 or (state.st_mode & 0o020 and state.st_gid != 0)
        if writable and not (state.st_mode & stat.S_ISVTX and stat.S_ISDIR(state.st_mode)):
            told[f"{one} is mode {stat.S_IMODE(state.st_mode):04o}"] = None
        elif state.st_uid not in (0, owner):
            told[f"{one} belongs to uid {state.st_uid}"] = None
    return tuple(told)


def closed(path: str) -> tuple[str, ...]:
    """What keeps users from running a script: folders above that they can't enter, the file."""
    told: list[str] = []
    for one in _chain(os.path.realpath(path)):
        try:
            state = os.stat(one)
        except OSError:
            continue
        needed = 0o001 if stat.S_ISDIR(state.st_mode) else 0o005
        if state.st_mode & needed != needed:
            told.append(f"{one} is mode {stat.S_IMODE(state.st_mode):04o}")
    return tuple(told)


def head(path: str, limit: int = MAX_SCRIPT) -> bytes:
    """The first bytes of a regular file. Raises OSError; another kind of file is one too."""
    # O_NONBLOCK: a FIFO in place of a file must not hold us.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(22, "not a regular file", path)
        data = b""
        while len(data) < limit and (chunk := os.read(fd, limit - len(data))):
            data += chunk
        return data
    finally:
        os.close(fd)


def _chain(path: str) -> list[str]:
    """The path and every folder above it, the root first."""
    parts = [part for part in path.split("/") if part]
    return ["/", *("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))]
