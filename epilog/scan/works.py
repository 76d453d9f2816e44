"""Watchdog and dump-signal lines → one Work for each rank and process group."""

from epilog.model import Work
from epilog.scan.sight import Sight, number

UNKNOWN_GROUP = "unknown"
"""The group of lines that do not name theirs (the watchdog's own line does not)."""


class Works:
    """Collects what time-out lines say about each rank's place in its groups.

    The line `Watchdog caught …` names operation and size but no group; the status line that
    follows names the group and how far it is. They are joined by rank and sequence number.
    """

    def __init__(self) -> None:
        self._status: dict[tuple[int, str], Work] = {}
        self._at_work: dict[tuple[int, str], int] = {}
        self._caught: dict[tuple[int, int], tuple[Work, str | None]] = {}

    def take(self, sight: Sight, rank: int | None) -> None:
        """Note a line of a signature with record = "work"."""
        if rank is None:
            return
        fields, at = sight.fields, sight.prefix.at
        seq = _signed(fields.get("seq"))
        if "op" in fields:
            work = Work(
                rank=rank,
                group=sight.prefix.group or UNKNOWN_GROUP,
                enqueued=None,
                completed=None if seq is None else seq - 1,
                op=fields["op"],
                numel_in=number(fields.get("numel_in")),
                numel_out=number(fields.get("numel_out")),
                shape=fields.get("shape"),
                timeout_ms=number(fields.get("timeout_ms")),
                at=at,
            )
            self._caught.setdefault((rank, -1 if seq is None else seq), (work, sight.prefix.group))
            return
        group = sight.prefix.group or UNKNOWN_GROUP
        enqueued, completed = _signed(fields.get("enqueued")), _signed(fields.get("completed"))
        if enqueued is None and completed is None:
            return
        key = (rank, group)
        if seq is not None or key not in self._status:
            if key not in self._at_work:
                self._status[key] = Work(rank, group, enqueued, completed, at=at)
            if seq is not None:
                self._at_work.setdefault(key, seq)

    def all(self) -> tuple[Work, ...]:
        """One Work for each rank and group, in order."""
        found: dict[tuple[int, str], Work] = dict(self._status)
        for (rank, seq), (caught, group) in sorted(self._caught.items()):
            key = self._owner(rank, seq, group)
            status = found.get(key)
            if status is None or (status.op is None and key in self._status):
                found[key] = _join(caught, status, key[1])
        return tuple(found[key] for key in sorted(found))

    def _owner(self, rank: int, seq: int, group: str | None) -> tuple[int, str]:
        """The group whose status line names this sequence number, or the rank's only one."""
        if group is not None:
            return rank, group
        mine = [key for key in self._status if key[0] == rank]
        exact = [key for key in mine if self._at_work.get(key) == seq]
        near = [
            key
            for key in mine
            if key not in self._at_work
            and (self._status[key].completed or 0) < seq <= (self._status[key].enqueued or 0)
        ]
        return (exact or near or [(rank, UNKNOWN_GROUP)])[0]


def _join(caught: Work, status: Work | None, group: str) -> Work:
    return Work(
        rank=caught.rank,
        group=group,
        enqueued=None if status is None else status.enqueued,
        completed=caught.completed if status is None else status.completed,
        op=caught.op,
        numel_in=caught.numel_in,
        numel_out=caught.numel_out,
        shape=caught.shape,
        timeout_ms=caught.timeout_ms,
        at=caught.at if caught.at is not None or status is None else status.at,
    )


def _signed(text: str | None) -> int | None:
    if text is None or len(text) > 19:
        return None
    return int(text)
