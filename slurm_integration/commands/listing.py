"""Our drains, as data and as text."""

import time
from collections.abc import Sequence

import msgspec

from slurm_integration.node_state import NodeState
from slurm_integration.reason import take_apart
from slurm_integration.sweep.nodeset import fold


class Drain(msgspec.Struct, frozen=True):
    """One node that flightcheck took out of service. `since` is in seconds since the epoch."""

    node: str
    state: str
    since: int | None
    check: str | None
    job_id: int | None
    replace: bool
    reason: str


class Listing(msgspec.Struct, frozen=True):
    """All of our drains; those of others are only counted."""

    drains: tuple[Drain, ...]
    foreign: int
    nodes: int


def list_drains(nodes: Sequence[NodeState]) -> Listing:
    """Pick our drains out of all nodes, oldest first."""
    drains = [_drain(node) for node in nodes if node.ours]
    drains.sort(key=lambda drain: (drain.since or 0, drain.node))
    return Listing(tuple(drains), sum(node.foreign for node in nodes), len(nodes))


def _drain(node: NodeState) -> Drain:
    reason = node.reason or ""
    parts = take_apart(reason)
    state = "drained" if node.drained else "draining" if node.draining else node.base.lower()
    return Drain(
        node=node.name,
        state=state,
        since=node.reason_time,
        check=parts.check,
        job_id=parts.job_id,
        replace=parts.replace,
        reason=reason,
    )


def as_text(listing: Listing) -> str:
    """A table: nodes drained for the same words are folded into one line."""
    groups: dict[tuple[str, str], list[Drain]] = {}
    for drain in listing.drains:
        groups.setdefault((drain.state, drain.reason), []).append(drain)
    rows = [("NODES", "STATE", "SINCE (UTC)", "REASON")]
    for (state, reason), members in groups.items():
        rows.append((fold(drain.node for drain in members), state, _when(members), reason))
    lines = []
    if len(rows) > 1:
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[3]]))
    count = len(listing.drains)
    lines.append(
        f"{count} of {listing.nodes} nodes drained by flightcheck; "
        f"{listing.foreign} held by others, which flightcheck leaves alone."
    )
    return "\n".join(lines)


def _when(members: Sequence[Drain]) -> str:
    """The oldest of the group; `+` where they differ."""
    stamps = sorted(drain.since for drain in members if drain.since is not None)
    if not stamps:
        return "?"
    text = time.strftime("%Y-%m-%d %H:%M", time.gmtime(stamps[0]))
    return text + ("+" if stamps[-1] - stamps[0] >= 60 else "")
