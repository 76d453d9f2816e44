"""What Slurm's view means for the book: drains that are new, over, or came too soon. Pure."""

from collections.abc import Iterable

import msgspec

from slurm_integration.node_state import NodeState
from slurm_integration.reason import take_apart
from slurm_integration.requalify.book import MAX_EPISODES, Book, Episode, Record
from slurm_integration.requalify.rules import Rules

SKEW_S = 120.0
"""A time this far in the future was written by a clock that has been set back since."""


def review(book: Book, nodes: Iterable[NodeState], now: float, rules: Rules) -> Book:
    """The book after a look at Slurm. Records without a past, and of nodes that are gone, go."""
    records = {}
    for node in nodes:
        record = _reviewed(book.of(node.name), node, now, rules)
        if record != Record():
            records[node.name] = record
    recent = tuple(one for one in book.resumes if now - rules.window_s < one[0] <= now + SKEW_S)
    return Book(records, recent)


def _reviewed(record: Record, node: NodeState, now: float, rules: Rules) -> Record:
    if not node.ours:
        # A drain that others have taken over proves nothing until it is ours again.
        return _served(record, now, rules) if not node.held else _without_proof(record)
    drained_at, reason = float(node.reason_time or 0), node.reason or ""
    if _is_same(record, reason, drained_at):
        return _same_drain(record, reason, drained_at, now)
    if record.drained_at is not None:
        # Resumed and drained again between two looks: the resume came no earlier than this.
        record = _ended(record, record.resuming_at or record.drained_at)
    parts = take_apart(reason)
    return Record(
        drained_at=drained_at,
        stamp=drained_at,
        reason=reason,
        check=parts.check,
        replace=parts.replace,
        strikes=_strikes(record, drained_at, rules),
        resumed_at=record.resumed_at,
        history=record.history,
    )


def _is_same(record: Record, reason: str, stamp: float) -> bool:
    """Whether this is the drain that the record is about.

    `scontrol reboot` adds ` : reboot issued` to the reason and moves its time (22.05).
    """
    if record.drained_at is None:
        return False
    appended = reason.startswith(f"{record.reason} : ") and record.resuming_at is None
    return record.stamp == stamp or appended


def _same_drain(record: Record, reason: str, stamp: float, now: float) -> Record:
    """Still the drain that we know: a resume that was sent did not arrive."""
    late = any(at > now + SKEW_S for at in record.passes)
    replace = record.replace or take_apart(reason).replace
    return msgspec.structs.replace(
        record,
        stamp=stamp,
        reason=reason,
        replace=replace,
        resuming_at=None,
        passes=() if late else record.passes,
    )


def _served(record: Record, now: float, rules: Rules) -> Record:
    """In service."""
    if record.drained_at is not None:
        record = _ended(record, record.resuming_at or now)
    served = now - (record.resumed_at or now)
    if record.strikes and served > rules.forgive_s:
        record = msgspec.structs.replace(record, strikes=0)
    if not record.strikes and served > max(rules.forgive_s, rules.flap_window_s):
        return Record()
    return record


def _ended(record: Record, resumed_at: float) -> Record:
    assert record.drained_at is not None
    episode = Episode(
        record.drained_at,
        record.reason,
        resumed_at,
        "requalify" if record.resuming_at is not None else "others",
        len(record.passes),
        record.strikes,
    )
    history = (*record.history, episode)[-MAX_EPISODES:]
    return Record(strikes=record.strikes, resumed_at=resumed_at, history=history)


def _strikes(record: Record, drained_at: float, rules: Rules) -> int:
    """One more where this drain came too soon after the last resume."""
    if record.resumed_at is None:
        return record.strikes
    soon = drained_at - record.resumed_at <= rules.flap_window_s
    return record.strikes + 1 if soon else record.strikes


def _without_proof(record: Record) -> Record:
    if not record.passes and record.looked_at is None:
        return record
    return msgspec.structs.replace(record, passes=(), looked_at=None, resuming_at=None)
