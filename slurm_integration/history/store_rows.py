"""What the database gives out, apart from events. Frozen; no database needed to make one."""

import msgspec


class NodeRow(msgspec.Struct, frozen=True):
    """A node as the database knows it; times in unix seconds. See schema.NODES."""

    node: str
    profile: str | None = None
    first_at: float | None = None
    last_at: float | None = None
    asked_from: float = 0.0
    tried_at: float | None = None
    answer: str | None = None
    detail: str | None = None
    lost: int = 0


class Tally(msgspec.Struct, frozen=True):
    """One node's events of one signal: how many, on how many days."""

    node: str
    signal: str
    events: int
    days: int
