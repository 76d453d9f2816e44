"""How many nodes flightcheck may drain, and who gets the last seat. Pure.

Slurm has no compare-and-set, and a Reason without a drain is not kept (22.05), so nodes that fail
in the same second agree through claims in their own node Comments, like customers of a bakery:

1. read all nodes; a claim's ticket is one higher than any that was seen;
2. write the claim, within SETTLE_S of starting to read (else it is void: begin again);
3. wait SETTLE_S, read again; whoever drew the same or a lower ticket has written it by now;
4. drains and claims before mine, by (ticket, name), leave a free seat: drain. Else withdraw.

Two winners can't both hold the last seat: the later in that order saw the earlier one's claim or
drain. All waits are on the node's monotonic clock. Wall clocks only age drains and dead claims.
The time of a drain is the controller's, "now" the node's; MUNGE refuses a call that comes from more
than CLOCKS_APART_S away, so a drain counts that much longer than the window: on a node whose clock
is ahead a seat is never free too early, on all others it is free five minutes late.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from healthcheck.config import DrainSettings
from slurm_integration.node_state import NodeState

SETTLE_S = 1.5
"""The same on every node of a cluster, or the order is worth nothing: not a setting."""
CLOCKS_APART_S = 300
"""The life of a MUNGE credential (munge(7), --ttl default): also its limit for wrong clocks."""
CLAIM_LIFE_S = 2 * CLOCKS_APART_S + 300
"""A claim this old was left by a prolog that died. Far longer than any prolog's deadline."""
CROWD = 8
"""Claims past the last seat that may still queue up; the others make one read and go."""
_CLAIM = re.compile(r" ?\[flightcheck-claim (\d{1,9}) (\d{1,12})\]")


class Budget(msgspec.Struct, frozen=True):
    """At most `max_nodes` and `max_percent` of all nodes within `window_s` seconds, and never
    more than `max_held_percent` of all nodes held by our drains, however old they are.

    A percentage gives at least one seat, so that small clusters have a budget at all.
    """

    max_nodes: int
    max_percent: float
    max_held_percent: float
    window_s: int

    @classmethod
    def of(cls, settings: DrainSettings) -> "Budget":
        """The part of the settings that counts seats."""
        return cls(
            settings.max_nodes,
            settings.max_percent,
            settings.max_held_percent,
            settings.window_s,
        )


class Claim(NamedTuple):
    """A node's wish for a seat; `at` is its writer's wall clock in seconds."""

    ticket: int
    at: int


class Seats(NamedTuple):
    """What the budget has left, as one node sees it."""

    recent: int
    """Our drains within the window."""
    held: int
    """Our drains of any age."""
    ahead: int
    """Claims that come before this node's."""
    recent_limit: int
    held_limit: int
    next_ticket: int

    @property
    def left(self) -> int:
        """Seats that no drain has taken."""
        return min(self.recent_limit - self.recent, self.held_limit - self.held)

    @property
    def free(self) -> int:
        """Seats left for this node; 0 or less means over budget."""
        return self.left - self.ahead

    @property
    def hopeless(self) -> bool:
        """Whether a claim is not worth writing: no seat, or a crowd before the last ones.

        A few more than there are seats queue up, because a claim can turn out void.
        """
        return self.left < 1 or self.free <= -CROWD

    def describe(self) -> str:
        """`2 of 2 drains in the window, 5 of 20 held, 3 claims ahead`."""
        return (
            f"{self.recent} of {self.recent_limit} drains in the window, "
            f"{self.held} of {self.held_limit} nodes held, {self.ahead} claims ahead"
        )


def count_seats(
    nodes: Sequence[NodeState], me: str, budget: Budget, now: float, mine: Claim | None = None
) -> Seats:
    """Count what is taken. Without a claim of one's own, every living claim is ahead."""
    recent = held = ahead = top = 0
    for node in nodes:
        claim = read_claim(node.comment)
        if node.name == me:
            top = max(top, claim.ticket if claim else 0)
        elif node.ours or (node.drain_flag and claim):
            # A drained node with a claim: the update failed, the prolog's exit code drained it.
            held += 1
            recent += _recent(node.reason_time, now - budget.window_s)
        elif claim and abs(now - claim.at) <= CLAIM_LIFE_S:
            top = max(top, claim.ticket)
            ahead += mine is None or (claim.ticket, node.name) < (mine.ticket, me)
    total = sum(node.base != "FUTURE" for node in nodes)
    share = max(1, int(total * budget.max_percent / 100))
    return Seats(
        recent=recent,
        held=held,
        ahead=ahead,
        recent_limit=min(budget.max_nodes, share),
        held_limit=max(1, int(total * budget.max_held_percent / 100)),
        next_ticket=top + 1,
    )


def _recent(drained_at: int | None, since: float) -> bool:
    return drained_at is None or drained_at > since - CLOCKS_APART_S


def read_claim(comment: str) -> Claim | None:
    """The claim in a node's comment."""
    if "[flightcheck-claim " not in comment:
        return None
    found = _CLAIM.search(comment)
    return Claim(int(found[1]), int(found[2])) if found else None


def with_claim(comment: str, claim: Claim) -> str:
    """The site's own comment with our claim behind it."""
    return f"{without_claim(comment)} [flightcheck-claim {claim.ticket} {claim.at}]".strip()


def without_claim(comment: str) -> str:
    """The site's own comment, as it was."""
    return _CLAIM.sub("", comment)
