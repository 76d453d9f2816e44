"""What the supervisor heard and saw of one run; the ground that the judgement stands on."""

from typing import Any

import msgspec


class Seen(msgspec.Struct, frozen=True):
    """One rank of this node at the end of the run, as its slot and the kernel showed it."""

    rank: int
    pid: int | None = None
    phase: str = ""
    call: str = ""
    entered: int = 0
    left: int = 0
    phases: int = 0
    silent_s: float | None = None
    state: str | None = None


class Told(msgspec.Struct, frozen=True):
    """`ended`: end (the child said so), failed, stopped, stalled, deadline, or gone."""

    ended: str
    messages: tuple[dict[str, Any], ...] = ()
    seen: tuple[Seen, ...] = ()
    output: str = ""
    duration_s: float = 0.0
    started_at: float = 0.0

    def of(self, kind: str) -> list[dict[str, Any]]:
        """All messages of one kind, in the order they came."""
        return [message for message in self.messages if message["t"] == kind]

    def first(self, kind: str) -> dict[str, Any]:
        """The first message of one kind; empty where none came."""
        return next((m for m in self.messages if m["t"] == kind), {})
