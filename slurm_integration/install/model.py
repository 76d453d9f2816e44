"""The nouns of an installation."""

from enum import StrEnum
from typing import Literal

import msgspec

Kind = Literal["file", "link"]


class InstallError(Exception):
    """Nothing more was done; the text says what was found and what to do."""


class Item(msgspec.Struct, frozen=True):
    """What should lie at `path`: a file with this text, or a link that leads to it.

    `seed`: a start for the site's own file, which is never touched again once it is changed.
    """

    path: str
    text: str
    kind: Kind = "file"
    mode: int = 0o644
    seed: bool = False


class Found(msgspec.Struct, frozen=True):
    """What lies at a path. `kind` is "missing", "file", "link" or "other"."""

    kind: str
    text: bytes = b""
    mode: int = 0


class Entry(msgspec.Struct, frozen=True):
    """A path in the manifest. `sha256`: of the contents that are ours; two during an update."""

    path: str
    kind: Kind
    sha256: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `install` put on this machine: paths as the machine names them, without --root."""

    form: int = 1
    entries: tuple[Entry, ...] = ()
    folders: tuple[str, ...] = ()
    """Made by us, in the order in which they were made."""

    def entry(self, path: str) -> Entry | None:
        """The entry of a path."""
        return next((one for one in self.entries if one.path == path), None)


class Do(StrEnum):
    """What happens to one path."""

    NEW = "new"
    UPDATE = "update"
    REPLACE = "replace"
    MODE = "mode"
    SAME = "same"
    KEPT = "kept"
    REMOVE = "remove"
    GONE = "gone"
    FORGET = "forget"


WRITES = (Do.NEW, Do.UPDATE, Do.REPLACE)


class Step(msgspec.Struct, frozen=True):
    """One path and what is done with it; `why` where that needs a word."""

    do: Do
    path: str
    why: str = ""
    item: Item | None = None
    found: Found = Found("missing")


class Plan(msgspec.Struct, frozen=True):
    """All steps, and the folders to be made before them."""

    steps: tuple[Step, ...]
    folders: tuple[str, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not any(one.do not in (Do.SAME, Do.KEPT) for one in self.steps)

    def of(self, *wanted: Do) -> list[Step]:
        """The steps of these kinds."""
        return [step for step in self.steps if step.do in wanted]
