"""What `scontrol -o show node` says, parsed. Pure.

The text form is the only one that is alike on every version from 22.05 to 25.11. Fields are
found by name; Reason, Comment and Extra are free text and stand in that order at the line's end.
"""

import re
from calendar import timegm

import msgspec

from slurm_integration.reason import is_ours

BASES = frozenset({"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"})
SUFFIXES = "*~#!%$@^-"
_COMPACT = {
    "ALLOC": ("ALLOCATED", ()),
    "MIX": ("MIXED", ()),
    "UNK": ("UNKNOWN", ()),
    "DRAINED": ("IDLE", ("DRAIN",)),
    "DRAINING": ("ALLOCATED", ("DRAIN",)),
    "FAILING": ("ALLOCATED", ("FAIL",)),
    "DRAINED_AND_DOWN": ("DOWN", ("DRAIN",)),
}
_STAMP = re.compile(
    r" \[([^\s\[\]@]*)@(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\](?=$|\n| [A-Z][A-Za-z]+=)"
)


class NodeState(msgspec.Struct, frozen=True):
    """One node as slurmctld sees it. Times are seconds since the epoch.

    `reason` may be a leftover (23.11 to 25.11 keep it after RESUME): `held` says if it counts.
    """

    name: str
    base: str = "UNKNOWN"
    flags: tuple[str, ...] = ()
    suffix: str = ""
    reason: str | None = None
    reason_user: str | None = None
    reason_time: int | None = None
    comment: str = ""
    partitions: tuple[str, ...] = ()
    version: str | None = None

    @property
    def drain_flag(self) -> bool:
        """Whether Slurm gives this node no new job because somebody said so."""
        return "DRAIN" in self.flags

    @property
    def drained(self) -> bool:
        """DRAIN, and no job left on it."""
        busy = self.base in {"ALLOCATED", "MIXED"} or "COMPLETING" in self.flags
        return self.drain_flag and not busy

    @property
    def draining(self) -> bool:
        """DRAIN, with a job still on it."""
        return self.drain_flag and not self.drained

    @property
    def held(self) -> bool:
        """Out of service by a person's or a program's word: DRAIN, DOWN or FAIL."""
        return self.drain_flag or self.base == "DOWN" or "FAIL" in self.flags

    @property
    def ours(self) -> bool:
        """Held, and by us."""
        return self.held and is_ours(self.reason)

    @property
    def foreign(self) -> bool:
        """Held, and not by us: never ours to touch."""
        return self.held and not is_ours(self.reason)


def parse_nodes(text: str) -> list[NodeState]:
    """All nodes of `scontrol -o show node`; a line that names no node is skipped."""
    # A newline inside a comment would otherwise cut a line in two.
    lines = text.split("\nNodeName=")
    if not lines[0].startswith("NodeName="):
        lines = lines[1:]
    return [_parse_node(line.removeprefix("NodeName=")) for line in lines]


def _parse_node(line: str) -> NodeState:
    name, space, rest = line.partition(" ")
    rest = space + rest
    state = _field(rest, " State=")
    base, flags, suffix = parse_state(state or "")
    tail = rest[max(rest.find(" State="), 0) :].rstrip("\n")
    reason, user, when, tail = _split_reason(tail)
    return NodeState(
        name=name.strip(),
        base=base,
        flags=flags,
        suffix=suffix,
        reason=reason,
        reason_user=user,
        reason_time=when,
        comment=_comment(tail),
        partitions=tuple(filter(None, (_field(rest, " Partitions=") or "").split(","))),
        version=_field(rest, " Version="),
    )


def _field(line: str, key: str) -> str | None:
    start = line.find(key)
    if start < 0:
        return None
    start += len(key)
    end = line.find(" ", start)
    return (line[start:] if end < 0 else line[start:end]).strip()


def parse_state(text: str) -> tuple[str, tuple[str, ...], str]:
    """`IDLE*+DRAIN` → ("IDLE", ("DRAIN",), "*"). Unknown words are kept as flags."""
    base, suffix = "UNKNOWN", ""
    flags: list[str] = []
    for position, part in enumerate(text.upper().split("+")):
        word = part.rstrip(SUFFIXES)
        suffix += part[len(word) :]
        if not word:
            suffix += "+" if position else ""
        elif word in BASES:
            base = word
        elif word in _COMPACT:
            base, implied = _COMPACT[word]
            flags.extend(implied)
        elif word not in flags:
            flags.append(word)
    return base, tuple(flags), suffix


def _split_reason(tail: str) -> tuple[str | None, str | None, int | None, str]:
    """Reason, its user and time, and what follows it. A comment's "Reason=" is not a reason."""
    start = tail.find(" Reason=")
    other = min(
        (at for at in (tail.find(" Comment="), tail.find(" Extra=")) if at >= 0), default=-1
    )
    if start < 0 or 0 <= other < start:
        return None, None, None, tail
    text = tail[start + len(" Reason=") :]
    stamp = _STAMP.search(text)
    if stamp is None:
        reason, key, after = text.partition(" Comment=")
        return reason.strip() or None, None, None, key + after
    user, *parts = stamp.groups()
    when = _utc(*map(int, parts))
    return text[: stamp.start()].strip() or None, user or None, when, text[stamp.end() :]


def _utc(*moment: int) -> int | None:
    """Seconds since the epoch; None for a day that no calendar has."""
    try:
        return timegm((*moment, 0, 0, 0))
    except (ValueError, OverflowError):
        return None


def _comment(tail: str) -> str:
    start = tail.find(" Comment=")
    if start < 0:
        return ""
    return tail[start + len(" Comment=") :].partition(" Extra=")[0]
