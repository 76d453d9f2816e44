"""What the reading child is sent for, and what it brings back. Plain data only."""

import msgspec

from epilog.recorder import RecorderResult
from epilog.scan import ScanResult


class Errand(msgspec.Struct, frozen=True):
    """Whose files to read, and which.

    `logs`, `recorder`, `rank_maps` and `error_files` are globs; `patterns` what each log's glob
    was expanded from, which tells node and task out of a file's name. `since` (unix seconds):
    files of the other kinds that are older belong to another job. `max_log` bounds what is read of
    one log, in bytes.
    """

    uid: int
    gid: int
    user: str | None
    logs: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    known: dict[str, str] = {}
    recorder: tuple[str, ...] = ()
    rank_maps: tuple[str, ...] = ()
    error_files: tuple[str, ...] = ()
    since: float | None = None
    nodes: tuple[str, ...] = ()
    node: str = ""
    max_log: int = 1 << 30
    seconds: float = 30.0


class FileRead(msgspec.Struct, frozen=True):
    """A log that was read. `cut`: bytes of its middle that were left out."""

    path: str
    size: int
    cut: int = 0


class Found(msgspec.Struct, frozen=True):
    """What the child brings back; what it could not do stands in `notes`."""

    scan: ScanResult = ScanResult()
    recorder: RecorderResult = RecorderResult()
    files: tuple[FileRead, ...] = ()
    notes: tuple[str, ...] = ()
