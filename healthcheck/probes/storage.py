"""The root file system, the mounts a site names, and the services it names.

A mount whose server is gone holds whoever asks about it, for ever. So each mount beyond "/" is
asked in a thread of its own, all at once, and after MOUNT_ANSWER_S those without an answer are
hung. Threads, not processes: a fork costs a millisecond each, and a thread held in the kernel
lets the others and the sending of the facts go on just as well. The probe's process ends without
waiting for it. Only mounts that the profile or the configuration names are ever touched.
"""

import _thread
import errno
from typing import Any

from healthcheck.host import Host
from healthcheck.reading import Ask

LOOKS, LOOK_S = 12, 0.25
MOUNT_ANSWER_S = LOOKS * LOOK_S
"""Longer than a loaded metadata server takes when a thousand prologs ask it at once, and below
the 3.5 s after which the whole probe would count as hung."""
MAX_MOUNTS_TEXT = 1 << 20
MAX_MOUNTS = 64

# What a client gets from a file system whose server or disk is gone.
STALE = frozenset(
    (
        errno.ESTALE,
        errno.EIO,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ESHUTDOWN,
        errno.ETIMEDOUT,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EREMOTEIO,
        errno.ENODEV,
        errno.ENXIO,
        errno.ENOLINK,
        errno.EUCLEAN,
    )
)
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
Mounts = dict[str, tuple[str, bool]]
"""Mount point → (type, read-only)."""


def read(ask: Ask) -> dict[str, Any]:
    """`filesystems` and `services`; each fails alone."""
    facts: dict[str, Any] = {}
    problems: dict[str, Any] = {}
    # Services first: they may start systemctl, and a process with threads should not fork.
    for field, reader in (("services", _read_services), ("filesystems", _filesystems)):
        try:
            facts[field] = reader(ask)
        except (OSError, ValueError) as error:
            told = f"{type(error).__name__}: {error}"
            problems[field] = {"kind": "failed", "reason": told, "call": None, "subject": None}
    return {**facts, "problems": problems}


def _read_services(ask: Ask) -> dict[str, str]:
    # Imported only where there is something to ask: many profiles name no services.
    if not ask.plan.services:
        return {}
    from healthcheck.probes._services import read_services

    return read_services(ask)


def parse_mounts(text: str) -> Mounts:
    """The mount table. Of several mounts on one point the last is the one that is seen."""
    mounts: Mounts = {}
    for line in text.splitlines():
        columns = line.split(" ")
        if len(columns) >= 4 and columns[1].startswith("/"):
            options = columns[3].split(",")
            mounts[_unescape(columns[1])] = (columns[2][:64], "ro" in options)
    return mounts


def _unescape(text: str) -> str:
    """/proc/mounts writes space, tab, newline and backslash as octal."""
    head, *parts = text.split("\\")
    for part in parts:
        code = part[:3]
        if len(code) == 3 and all(digit in "01234567" for digit in code):
            head += chr(int(code, 8)) + part[3:]
        else:
            head += "\\" + part
    return head


def _filesystems(ask: Ask) -> list[dict[str, Any]]:
    mounts = _mounts(ask.host)
    wanted = [_tidy(path) for path in dict.fromkeys(ask.plan.mounts)][:MAX_MOUNTS]
    answers: dict[str, dict[str, Any]] = {}
    locks = {}
    for path in dict.fromkeys(wanted):
        if path != "/":
            locks[path] = _thread.allocate_lock()
            locks[path].acquire()
            _thread.start_new_thread(_ask_mount, (ask.host, path, mounts, answers, locks[path]))
    ask.progress.note("statvfs", "/")
    root = _measure(ask.host, "/", mounts)
    # Looks are counted and not seconds: on a machine that stood still the seconds are over while
    # no thread has run.
    looks = LOOKS
    for path, lock in locks.items():
        ask.progress.note("statvfs", path)
        while not lock.acquire(timeout=LOOK_S if looks > 0 else 0) and looks > 0:
            looks -= 1
    return [root, *(answers.get(path) or _hung(path, mounts) for path in locks)]


def _ask_mount(
    host: Host, path: str, mounts: Mounts | None, answers: dict[str, dict[str, Any]], lock: Any
) -> None:
    try:
        answers[path] = _measure(host, path, mounts)
    except (OSError, ValueError) as error:
        answers[path] = _state(path, "unknown", detail=f"{type(error).__name__}: {error}"[:200])
    finally:
        lock.release()


def _measure(host: Host, path: str, mounts: Mounts | None) -> dict[str, Any]:
    """State and space of one file system. May never return."""
    try:
        if mounts is not None and path not in mounts:
            return _unmounted(host, path, mounts)
        if mounts is not None and mounts[path][0] == "autofs":
            # Asking is what makes the automounter mount; only then does the table tell.
            host.space(path)
            mounts = _mounts(host)
        space = host.space(path)
    except OSError as error:
        return _refused(path, error, mounts)
    kind, table_read_only = (mounts or {}).get(path, (None, False))
    return _state(
        path,
        "ok",
        kind=kind,
        size_bytes=space.size_bytes,
        free_bytes=space.free_bytes,
        inodes=space.inodes,
        inodes_free=space.inodes_free,
        read_only=space.read_only or table_read_only,
    )


def _unmounted(host: Host, path: str, mounts: Mounts) -> dict[str, Any]:
    """A path that is no mount point itself: it may lead to one through links, or be absent."""
    real = host.real_path(path)
    if real != path and real in mounts:
        return {**_measure(host, real, mounts), "path": path}
    if path == "/":
        # The table of a container or a recorded machine may lack its root.
        return _measure(host, "/", None)
    if host.exists(path):
        return _state(path, "not-mounted")
    return _state(path, "missing")


def _refused(path: str, error: OSError, mounts: Mounts | None) -> dict[str, Any]:
    kind, read_only = (mounts or {}).get(path, (None, None))
    told: dict[str, Any] = {"kind": kind, "read_only": read_only, "detail": error.strerror}
    if error.errno in STALE:
        return _state(path, "stale", **told)
    if error.errno in _MISSING and path != "/":
        return _state(path, "missing", **told)
    if error.errno in (errno.EACCES, errno.EPERM) and kind is not None:
        # The server squashes root; it answered, so the mount lives.
        return _state(path, "ok", **told)
    return _state(path, "unknown", **told)


def _hung(path: str, mounts: Mounts | None) -> dict[str, Any]:
    kind, read_only = (mounts or {}).get(path, (None, None))
    return _state(
        path,
        "hung",
        kind=kind,
        read_only=read_only,
        detail=f"no answer to statvfs within {MOUNT_ANSWER_S:g} s",
    )


def _state(path: str, state: str, **facts: Any) -> dict[str, Any]:
    return {"path": path, "state": state, **facts}


def _mounts(host: Host) -> Mounts | None:
    """The mount table; reading it never touches a mount. None where there is none."""
    try:
        return parse_mounts(host.read_text("/proc/mounts", MAX_MOUNTS_TEXT))
    except OSError:
        return None


def _tidy(path: str) -> str:
    return path.rstrip("/") or "/"
