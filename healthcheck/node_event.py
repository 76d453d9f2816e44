"""One event of a node: its form, its id, and the events of a failed job. Pure but for ids."""

import os
from collections.abc import Sequence

import msgspec

MAX_EVENTS = 256
"""Of one look. A sick bus can make a finding of every device; the rest is counted."""
MAX_TEXT = 400
"""Characters of any text in an event."""
MAX_ROOTS = 64


class NodeEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened on or to a node. Collecting one twice never doubles it: `id`.

    `kind`: verdict (`verdict`, from `before`), finding and cleared (`check`, `severity`,
    `subject`), drain, requeue and alert (what a stage did; `outcome` says how it ended), resume,
    job-failure (`klass`, `root`), excluded (a user's job named the node in --exclude),
    link-downed, and the kernel log's: xid, sxid, mce, memory, nic, nic-power, pcie, power,
    filesystem (`code`, `count`). `at` is unix seconds. `nodes`: how many nodes the job had.
    `root`: this node began the failure. `job_id` of a kernel event is the job that had the node.
    """

    id: str
    at: float
    node: str
    kind: str
    boot_id: str | None = None
    stage: str | None = None
    profile: str | None = None
    verdict: str | None = None
    before: str | None = None
    check: str | None = None
    severity: str | None = None
    subject: str | None = None
    message: str | None = None
    action: str | None = None
    outcome: str | None = None
    code: int | None = None
    count: int = 1
    job_id: int | None = None
    uid: int | None = None
    klass: str | None = None
    confidence: float | None = None
    root: bool = False
    nodes: int | None = None


def job_failures(
    reporter: str,
    job_id: int,
    klass: str,
    roots: Sequence[str],
    *,
    at: float,
    nodes: int,
    uid: int | None = None,
    restart: int = 0,
    started_at: float | None = None,
    confidence: float | None = None,
    message: str = "",
) -> list[NodeEvent]:
    """A failed job's attribution: one event for each node that began it, or one for the reporter.

    Every node of the job may tell the same; their ids are equal, so it is counted once a job.
    `klass` is `category/class`. `started_at` tells jobs apart whose number was given again.
    """
    named = tuple(dict.fromkeys(roots))[:MAX_ROOTS]
    start = None if started_at is None else int(started_at)
    return [
        NodeEvent(
            # Without a root there is one failure, not one for each node that tells it.
            id=steady_id("job", job_id, restart, start, root),
            at=round(at, 3),
            node=root or reporter,
            kind="job-failure",
            klass=cut(klass),
            confidence=confidence,
            root=root is not None,
            job_id=job_id,
            uid=uid,
            nodes=nodes,
            message=cut(message) or None,
        )
        for root in named or (None,)
    ]


def bounded(events: Sequence[NodeEvent], limit: int = MAX_EVENTS) -> Sequence[NodeEvent]:
    """At most `limit` events; the last then says how many more there were."""
    if len(events) <= limit:
        return events
    last = events[limit - 1]
    rest = len(events) - limit + 1
    told = NodeEvent(
        new_id(last.at), last.at, last.node, "alert", boot_id=last.boot_id, count=rest,
        outcome="not-kept", message=f"{rest} more events of this look were not kept",
    )  # fmt: skip
    return [*events[: limit - 1], told]


def new_id(now: float) -> str:
    """An id that sorts by time and that nobody else draws: milliseconds, then 80 random bits."""
    return f"{int(now * 1000) & (1 << 48) - 1:012x}{os.urandom(10).hex()}"


def steady_id(*parts: object) -> str:
    """The same id for the same parts, wherever and however often it is made."""
    from hashlib import blake2b  # costs a node that has something to tell alone

    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def cut(text: str) -> str:
    """At most MAX_TEXT characters."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
