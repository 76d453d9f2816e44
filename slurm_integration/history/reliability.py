"""Mean time between failures, by what failed and by node type. Pure.

A failure is a job that the node began to fail, or a check that began to fail on it: each class
stands for itself, since one broken GPU is often both. Time is calendar time of all nodes of the
type, drained ones included.
"""

from collections.abc import Mapping, Sequence

import msgspec

from slurm_integration.history.lemons import days_watched
from slurm_integration.history.rates import Mtbf, mtbf
from slurm_integration.history.store_rows import NodeRow, Tally

UNKNOWN = "unknown"


class Line(msgspec.Struct, frozen=True):
    """One class of failures of one node type. `klass` is `job CLASS`, `check NAME` or `all jobs`;
    `nodes` how many nodes had one."""

    profile: str
    klass: str
    nodes: int
    mtbf: Mtbf


class TypeRow(msgspec.Struct, frozen=True):
    """A node type: how many nodes, watched for how long together."""

    profile: str
    nodes: int
    hours: float


class Statistics(msgspec.Struct, frozen=True):
    """All lines, by node type and then the most frequent first."""

    types: tuple[TypeRow, ...]
    lines: tuple[Line, ...]
    days: float
    failed_jobs: int
    """Of any cause, the users' own included."""


def reliability(
    tallies: Sequence[Tally],
    nodes: Mapping[str, NodeRow],
    since: float,
    now: float,
    failed_jobs: int = 0,
) -> Statistics:
    """The statistics of `since` to `now`. Nodes that were never collected are of unknown type."""
    names = set(nodes) | {tally.node for tally in tallies}
    kinds = {name: _type(nodes.get(name)) for name in names}
    hours: dict[str, float] = {}
    count: dict[str, int] = {}
    for name, kind in kinds.items():
        hours[kind] = hours.get(kind, 0.0) + days_watched(nodes.get(name), since, now) * 24
        count[kind] = count.get(kind, 0) + 1
    failures: dict[tuple[str, str], int] = {(kind, "all jobs"): 0 for kind in hours}
    affected: dict[tuple[str, str], set[str]] = {}
    for tally in tallies:
        for klass in _classes(tally.signal):
            key = (kinds[tally.node], klass)
            failures[key] = failures.get(key, 0) + tally.events
            affected.setdefault(key, set()).add(tally.node)
    lines = [
        Line(kind, klass, len(affected.get((kind, klass), ())), mtbf(number, hours[kind]))
        for (kind, klass), number in failures.items()
    ]
    lines.sort(
        key=lambda one: (one.profile, one.klass != "all jobs", -one.mtbf.failures, one.klass)
    )
    types = tuple(TypeRow(kind, count[kind], hours[kind]) for kind in sorted(hours))
    return Statistics(types, tuple(lines), (now - since) / 86_400.0, failed_jobs)


def _type(node: NodeRow | None) -> str:
    return (node.profile if node else None) or UNKNOWN


def _classes(signal: str) -> tuple[str, ...]:
    kind, _, rest = signal.partition(":")
    if kind == "job":
        return f"job {rest.partition(':')[2]}", "all jobs"
    return (f"check {rest}",) if kind == "check" else ()
