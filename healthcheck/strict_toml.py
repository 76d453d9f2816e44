"""Reading TOML that people write: bounded, strict, and refused with file, line and key.

The prolog reads one configuration and one profile through here, so the happy path imports only
tomllib; what it takes to explain a refusal is in `toml_faults` and loaded when something is wrong.
"""

import os
import stat
from typing import Any, NamedTuple, TypeVar

import msgspec

MAX_BYTES = 65_536
MAX_LINE = 2_000
"""tomllib takes quadratic time over a key of very many parts, and a key is one line."""

T = TypeVar("T")


class Refused(Exception):  # noqa: N818 - an answer about a file, told to the operator
    """A file that must not be used. `notes` say why: `FILE:LINE: KEY: expected …, found …; …`."""

    def __init__(self, *notes: str) -> None:
        super().__init__("\n".join(notes))
        self.notes = notes


class Document(NamedTuple):
    """A parsed TOML file. `text` stays with it so that a complaint can name the line."""

    path: str
    text: str
    tree: dict[str, Any]


def read_bounded(path: str, limit: int = MAX_BYTES, *, private: bool = False) -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    `private`: as root, refuse a file that others may change. Raises Refused, and
    FileNotFoundError where there is nothing at all under that name.
    """
    try:
        # O_NONBLOCK: a FIFO in place of a file must not hold us.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if os.path.islink(path):
            raise Refused(
                f"{path}: expected a file, found a link to nothing ({os.readlink(path)}); "
                "mend or remove the link"
            ) from None
        raise
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "a NUL byte in its name"
        raise Refused(f"{path}: expected a readable file, found: {why}; mend it") from error
    try:
        state = os.fstat(fd)
        told = _unfit(state, limit, private)
        if told is None:
            data = _read(fd, limit + 1)
            if len(data) <= limit:
                return data
            told = _too_big(limit, f"more than {limit}")
    except OSError as error:
        told = f"expected a readable file, found: {error.strerror}; mend it"
    finally:
        os.close(fd)
    raise Refused(f"{path}: {told}")


def _unfit(state: os.stat_result, limit: int, private: bool) -> str | None:
    """Why a file of this kind, size and owner is not read, or None."""
    if not stat.S_ISREG(state.st_mode):
        kind = "a directory" if stat.S_ISDIR(state.st_mode) else "a device, socket or FIFO"
        return f"expected a regular file, found {kind}; put a file there"
    if state.st_size > limit:
        return _too_big(limit, str(state.st_size))
    if private and os.geteuid() == 0:
        writable = state.st_mode & 0o002 or (state.st_mode & 0o020 and state.st_gid != 0)
        if state.st_uid != 0 or writable:
            return (
                "expected a file that only root can change, found owner "
                f"{state.st_uid}, mode {stat.S_IMODE(state.st_mode):04o}; "
                "run: chown root:root FILE; chmod 644 FILE"
            )
    return None


def _too_big(limit: int, found: str) -> str:
    return f"expected at most {limit} bytes, found {found}; put the right file there"


def _read(fd: int, limit: int) -> bytes:
    data = b""
    while len(data) < limit and (chunk := os.read(fd, limit - len(data))):
        data += chunk
    return data


def read_toml(path: str, *, private: bool = False) -> Document:
    """A TOML file, parsed. Raises Refused, and FileNotFoundError as read_bounded does."""
    return parse_toml(read_bounded(path, private=private), path)


def parse_toml(data: bytes, path: str) -> Document:
    """A TOML document out of any bytes; `path` names it in complaints. Raises Refused."""
    import tomllib

    try:
        text = data.decode("utf-8")
        if len(text) > MAX_LINE and max(map(len, text.split("\n"))) > MAX_LINE:
            raise ValueError(f"A line of more than {MAX_LINE} characters")
        tree = tomllib.loads(text)
    except (ValueError, RecursionError, OverflowError) as error:
        from healthcheck.toml_faults import syntax_note

        raise Refused(syntax_note(path, data, error)) from error
    # Only where the letters are there at all is it worth walking the tree for nan and inf.
    if "nan" in text or "inf" in text:
        from healthcheck.toml_faults import not_finite

        notes = not_finite(path, text, tree)
        if notes:
            raise Refused(*notes)
    return Document(path, text, tree)


def convert(document: Document, kind: type[T]) -> T:
    """The document as a `kind` of struct. Raises Refused with one note for each fault in it."""
    try:
        return msgspec.convert(document.tree, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        from healthcheck.toml_faults import struct_notes

        raise Refused(*struct_notes(document, kind, str(error))) from error
