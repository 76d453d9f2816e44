"""Which nodes are lemons: far more trouble than their share. Pure.

Each signal of a node is compared with the rest of the fleet: how likely is a count like this one,
if this node were like the others for the days it was watched? The chances of its signals are
combined (Fisher), and a node is called a lemon when not one in a hundred whole fleets of alike
nodes would show such a node. So a small or quiet fleet accuses nobody by accident, and no
threshold has to be tuned by hand.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from slurm_integration.history.rates import at_least, combined
from slurm_integration.history.store_rows import NodeRow, Tally

DAY_S = 86_400.0
FALSE_ALARMS = 0.01
"""Expected number of innocent nodes called lemons in a whole fleet."""
FLOOR = 1e-12
"""One signal alone counts no more than this: days of Xids follow each other."""
PRIOR = 0.5
"""Events that the rest of the fleet is taken to have had in all, where it had none."""
SIGNALS = ("excluded", "xid", "out", "multi", "single")
NAMES = {
    "excluded": "users exclude it",
    "xid": "days with hardware Xids",
    "out": "times out of service",
    "multi": "multi-node jobs failed here",
    "single": "single-node jobs failed here",
}


class Signals(msgspec.Struct, frozen=True):
    """What is known against one node. `days`: how long it was watched.

    `excluded`: users whose jobs exclude it; `xid`: days with hardware Xids; `out`: times it was
    drained; `multi` and `single`: failed jobs on several nodes and on one that it began.
    """

    node: str
    days: float
    profile: str | None = None
    excluded: int = 0
    xid: int = 0
    out: int = 0
    multi: int = 0
    single: int = 0

    @property
    def failures(self) -> int:
        """Failed jobs that this node began."""
        return self.multi + self.single

    @property
    def failures_per_30_days(self) -> float:
        """Failed jobs that it began, per 30 days watched."""
        return self.failures * 30 / self.days if self.days else 0.0


class Lemon(msgspec.Struct, frozen=True):
    """One node's place: `score` is -log10 of the chance that it is a node like the others."""

    signals: Signals
    score: float
    lemon: bool
    expected: dict[str, float]
    """Signal → what a node like the others would have had."""
    why: tuple[str, ...]
    xids: tuple[int, ...] = ()


class Ranking(msgspec.Struct, frozen=True):
    """The worst nodes first; nodes without any signal are left out.

    `failures`: failed jobs that nodes began; `top_failures`: those of the `top` nodes with most.
    """

    worst: tuple[Lemon, ...]
    nodes: int
    lemons: int
    failures: int
    top: int
    top_failures: int
    days: float

    @property
    def share(self) -> float | None:
        """Part of all failures that the `top` nodes began; None where there was none."""
        return self.top_failures / self.failures if self.failures else None


def signals(
    tallies: Sequence[Tally], nodes: Mapping[str, NodeRow], since: float, now: float
) -> list[Signals]:
    """One row a node of the database, also for those without any event."""
    counts: dict[str, dict[str, int]] = {name: {} for name in nodes}
    for tally in tallies:
        of_node = counts.setdefault(tally.node, {})
        name, amount = _counted(tally)
        if name:
            of_node[name] = of_node.get(name, 0) + amount
    return [
        Signals(
            name,
            days=days_watched(nodes.get(name), since, now),
            profile=row.profile if (row := nodes.get(name)) else None,
            **of_node,
        )
        for name, of_node in counts.items()
    ]


def _counted(tally: Tally) -> tuple[str, int]:
    """The field of Signals that a tally belongs to, and what it adds."""
    kind, _, rest = tally.signal.partition(":")
    match kind:
        case "excluded":
            return "excluded", 1  # a user, however many jobs
        case "xid":
            return "xid", tally.days
        case "drain":
            return "out", tally.events
        case "job":
            return ("multi" if rest.startswith("multi:") else "single"), tally.events
    return "", 0


def days_watched(node: NodeRow | None, since: float, now: float) -> float:
    """Days between `since` and now in which this node is known; at least one."""
    first = node.first_at if node and node.first_at is not None else since
    last = node.last_at if node and node.last_at is not None else now
    return max(1.0, (min(last, now) - max(first, since)) / DAY_S)


def rank(fleet: Sequence[Signals], top: int, since: float, now: float) -> Ranking:
    """The `top` worst nodes of the fleet."""
    totals = {name: sum(getattr(one, name) for one in fleet) for name in SIGNALS}
    days = sum(one.days for one in fleet)
    judged = [_judge(one, totals, days, len(fleet)) for one in fleet]
    judged.sort(key=lambda one: (-one.score, -one.signals.failures, one.signals.node))
    most = sorted((one.failures for one in fleet), reverse=True)
    return Ranking(
        worst=tuple(one for one in judged[:top] if one.expected),
        nodes=len(fleet),
        lemons=sum(one.lemon for one in judged),
        failures=sum(most),
        top=min(top, len(fleet)),
        top_failures=sum(most[:top]),
        days=(now - since) / DAY_S,
    )


def _judge(one: Signals, totals: Mapping[str, int], days: float, nodes: int) -> Lemon:
    chances, expected, why = [], {}, []
    for name in SIGNALS:
        count = getattr(one, name)
        if not totals[name]:
            continue
        others = max(days - one.days, 1.0)
        mean = max(totals[name] - count, PRIOR) / others * one.days
        chance = max(at_least(count, mean), FLOOR)
        chances.append(chance)
        if count:
            expected[name] = round(mean, 3)
            why.append((chance, f"{NAMES[name]}: {count}, expected {mean:.2g}"))
    together = combined(chances)
    return Lemon(
        one,
        score=round(max(0.0, -math.log10(max(together, 1e-99))), 2),
        lemon=together * nodes < FALSE_ALARMS,
        expected=expected,
        why=tuple(text for chance, text in sorted(why) if chance < 0.05),
    )
