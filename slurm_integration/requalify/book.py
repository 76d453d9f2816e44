"""What is remembered of each node between two rounds. Frozen; JSON both ways."""

import msgspec

from healthcheck.model import Action

FORM = 1
MAX_EPISODES = 12
"""Past drains kept of one node."""


class Episode(msgspec.Struct, frozen=True):
    """A drain that is over: since when, why, and how it ended. Times are unix seconds.

    `by`: requalify, or others, whose time is when it was noticed.
    """

    drained_at: float
    reason: str
    resumed_at: float
    by: str
    passes: int
    strikes: int


class Record(msgspec.Struct, frozen=True):
    """One node's way back, and its past.

    `drained_at` and `reason` name the drain it is about; None: in service. `stamp` is the time
    that Slurm shows with the reason: a reboot moves it. `passes` are the times
    of clean passes in a row. `trouble` is what the last look found, `remedy` what mends it.
    `replace` sticks for the whole drain. `resuming_at`: a resume was sent; whether it arrived,
    Slurm's next answer tells.
    """

    drained_at: float | None = None
    stamp: float | None = None
    reason: str = ""
    check: str | None = None
    replace: bool = False
    passes: tuple[float, ...] = ()
    looked_at: float | None = None
    trouble: str = ""
    remedy: Action = Action.NONE
    reboots: tuple[float, ...] = ()
    resuming_at: float | None = None
    strikes: int = 0
    resumed_at: float | None = None
    history: tuple[Episode, ...] = ()


class Book(msgspec.Struct, frozen=True):
    """All records by node, and when which node was resumed by us, for the budget."""

    records: dict[str, Record] = {}
    resumes: tuple[tuple[float, str], ...] = ()
    form: int = FORM

    def of(self, node: str) -> Record:
        """The node's record, or an empty one."""
        return self.records.get(node, Record())

    def having(self, changed: dict[str, Record]) -> "Book":
        """This book with some records changed."""
        return msgspec.structs.replace(self, records={**self.records, **changed})
