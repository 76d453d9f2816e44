"""Becoming the job's user, for good."""

import ctypes
import os
import resource

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
MEMORY_ABOVE = 1 << 30
"""Bytes of address space on top of what the process has when it drops its rights."""
FILES = 256
CLOSE_TO = 4096


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """The rights could not be given up, so nothing may be read."""


def become(uid: int, gid: int, user: str | None) -> None:
    """Give up root for the user's own rights, in a child that does nothing else afterwards.

    Groups as a login of the user would have them: project folders are often open to a group only.
    Raises Refused where that did not work or could be undone.
    """
    try:
        os.setgroups(_groups(user, gid))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise Refused(f"cannot become uid {uid}: {error.strerror}") from None
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise Refused(f"cannot become uid {uid}: the ids are {os.getresuid()}")
    if uid != 0 and _can_return():
        raise Refused("root could be had back")
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise Refused("the kernel refuses no_new_privs")
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def bound(seconds: float, *, writes: bool = False) -> None:
    """Limits that no file can pass: processor time, memory, open files, files written."""
    cpu = max(1, int(seconds) + 1)
    limits = [
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, _address_space() + MEMORY_ABOVE, None),
        (resource.RLIMIT_NOFILE, FILES, None),
        (resource.RLIMIT_CORE, 0, None),
    ]
    if not writes:
        limits.append((resource.RLIMIT_FSIZE, 0, None))
    for which, soft, hard in limits:
        resource.setrlimit(which, (soft, soft if hard is None else hard))


def close_others(keep: int) -> None:
    """Close every descriptor but 0, 1, 2 and `keep`: root's own files stay with root."""
    os.closerange(3, keep)
    os.closerange(keep + 1, CLOSE_TO)


def _groups(user: str | None, gid: int) -> list[int]:
    if not user:
        return [gid]
    try:
        return os.getgrouplist(user, gid)[:FILES]
    except (KeyError, OSError, ValueError):
        return [gid]


def _can_return() -> bool:
    try:
        os.setuid(0)
    except OSError:
        return False
    return True


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read(64).split()[0]) * resource.getpagesize()
