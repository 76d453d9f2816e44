"""The state file: one process at a time, whole or not at all, bounded."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from healthcheck.own_folder import own_folder
from healthcheck.strict_json import decode_json
from healthcheck.whole_file import write_whole
from slurm_integration.requalify.book import FORM, Book

MAX_BYTES = 64 << 20
"""100,000 nodes with a past are 40 MB."""
FILE = "requalify.json"


class StoreError(Exception):
    """The state can't be used; the text says what to do."""


class Store:
    """The book on disk, in a folder that only its owner may write to."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/{FILE}"
        self._folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one. Raises StoreError where another requalify is."""
        try:
            own_folder(self._folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(f"{self.path}.lock", flags, 0o600)
        except OSError as error:
            raise StoreError(f"{self.path}.lock: {error.strerror}") from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreError(
                    f"another requalify is at work ({self.path}.lock is held); let it end, or "
                    "stop its service"
                ) from error
            yield
        finally:
            os.close(fd)

    def load(self) -> tuple[Book, str]:
        """The book and a note. One that can't be read is set aside: everybody proves anew."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return Book(), ""
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}; mend or remove it") from error
        with open(fd, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        try:
            if len(data) > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES} bytes")
            book = decode_json(data, Book)
            if book.form != FORM:
                raise ValueError(f"form {book.form}, expected {FORM}")
        except (ValueError, msgspec.MsgspecError) as error:
            aside = f"{self.path}.unreadable"
            os.replace(self.path, aside)
            return Book(), f"{self.path} can't be read ({error}): set aside as {aside}, begun anew"
        return book, ""

    def save(self, book: Book) -> None:
        """Write all of it or nothing. Raises StoreError: without a memory nothing is resumed."""
        try:
            write_whole(self.path, msgspec.json.encode(book), durable=True)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error
