"""What goes into a scan and what comes out."""

from typing import BinaryIO, NamedTuple

import msgspec

from epilog.model import Evidence, RankPlace, TaskExit, Work


class Source(NamedTuple):
    """One log. `size` in bytes if known: small ones are read without Hyperscan.

    `host`, `rank` and `label` are what the file's name tells (%N, %t) and hold where a line says
    nothing else. `fact`: a kernel log or another thing that no user can write.
    """

    name: str
    stream: BinaryIO
    size: int | None = None
    host: str | None = None
    rank: int | None = None
    label: int | None = None
    fact: bool = False


class Settings(msgspec.Struct, frozen=True):
    """Bounds and hints of a scan.

    `keep`: evidence kept of each (signature, rank): that many first and as many last ones.
    `started_at` (unix seconds) gives the year to times that have none. `nodes` are the job's
    hosts, which settles whether `node7: ` is one.
    """

    keep: int = 8
    started_at: float | None = None
    nodes: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True):
    """A line that says a new attempt of the whole job begins behind it."""

    file: str
    line: int
    at: float | None = None


class ScanResult(msgspec.Struct, frozen=True):
    """All that was seen in a job's logs, in order of file and line.

    `context` are lines that healthy jobs print as well (a checkpoint is saved). `counts`: how
    often each signature was seen, those not kept included. `notes`: what was cut or could not be
    read, for the report.
    """

    evidence: tuple[Evidence, ...] = ()
    works: tuple[Work, ...] = ()
    exits: tuple[TaskExit, ...] = ()
    places: tuple[RankPlace, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    context: tuple[Evidence, ...] = ()
    counts: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    bytes_read: int = 0
