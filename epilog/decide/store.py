"""The file that suspicions are kept in: bounded, written whole or not at all.

Epilogs of several jobs may meet here, so that reading, adding and writing hold a lock.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from epilog.decide.suspicions import Suspicion
from healthcheck.own_folder import check_folder, own_folder
from healthcheck.strict_json import decode_json
from healthcheck.whole_file import write_whole

FILE = "suspicions.json"
MOST = 512
MOST_BYTES = 1 << 20
VERSION = 1


class _Kept(msgspec.Struct, frozen=True):
    version: int
    suspicions: tuple[Suspicion, ...]


def load(folder: str) -> tuple[tuple[Suspicion, ...], str | None]:
    """The suspicions and a note for the reader, None where all is well.

    A file that is not ours is renamed to `….set-aside`: it confirms nothing and stops nothing.
    """
    path = f"{folder}/{FILE}"
    try:
        check_folder(folder)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return (), None
    except OSError as error:
        return (), f"{path}: {error.strerror}; judged without earlier suspicions"
    try:
        if len(data) > MOST_BYTES:
            raise msgspec.ValidationError(f"larger than {MOST_BYTES} bytes")
        kept = decode_json(data, _Kept)
        if kept.version != VERSION:
            raise msgspec.ValidationError(f"version {kept.version}, not {VERSION}")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return (), _set_aside(path, str(error))
    return kept.suspicions[-MOST:], None


def update(
    folder: str, change: Callable[[Sequence[Suspicion]], tuple[Suspicion, ...]]
) -> tuple[tuple[Suspicion, ...], str | None]:
    """Read, change and write under a lock; what is kept now, and a note where that failed."""
    try:
        own_folder(folder)
        with _locked(folder):
            remembered, note = load(folder)
            kept = change(remembered)[-MOST:]
            _write(folder, kept)
            return kept, note
    except OSError as error:
        return (), f"{folder}/{FILE}: {error.strerror}; the suspicion is lost"


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{folder}/{FILE}.lock", flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _write(folder: str, kept: tuple[Suspicion, ...]) -> None:
    data = msgspec.json.encode(_Kept(VERSION, kept))
    write_whole(f"{folder}/{FILE}", data, durable=True)


def _set_aside(path: str, why: str) -> str:
    aside = f"{path}.set-aside"
    try:
        os.replace(path, aside)
    except OSError as error:
        return f"{path} is not a list of suspicions ({why}) and stays: {error.strerror}"
    return f"{path} is not a list of suspicions ({why}); set aside as {aside}, begun anew"
