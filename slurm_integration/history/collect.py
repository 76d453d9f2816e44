"""Fetch what is new from every node, and remember how far that came.

A node's events and the time to ask from next are stored together: a collect that is ended
anywhere loses nothing and doubles nothing. Nodes are asked in few groups, since one srun step
carries one question; a group asks from its earliest time, and what comes twice is stored once.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slurm_integration.history.export import read_export
from slurm_integration.history.store import Store
from slurm_integration.history.store_rows import NodeRow
from slurm_integration.sweep.model import Answer, NodeResult
from slurm_integration.sweep.transports.base import Errand

OVERLAP_S = 60.0
"""A line may reach a node's log this long after the time it carries (a stalled disk)."""
ALIKE_S = 600.0
MAX_GROUPS = 4
Keep = Callable[[str, bytes], None]
Show = Callable[[NodeResult], None]
Ask = Callable[[Sequence[str], "HistoryErrand", Show, Keep], bool]
"""Ask nodes over some transport; whether somebody interrupted it."""


class HistoryErrand(Errand, frozen=True):
    """Ask for events instead of a check. `since`: unix seconds by the node's clock."""

    since: float = 0.0
    whole: bool = True

    def arguments(self, stage: str) -> list[str]:
        """The arguments of flightcheck on the node."""
        return ["history", "--export-since", f"{self.since:.3f}"]


class Summary(msgspec.Struct, frozen=True):
    """How a collect went. `answers`: how many nodes by answer; `failed`: (node, why)."""

    nodes: int
    answers: dict[str, int]
    events: int
    new: int
    refused: int
    """Events that made no sense."""
    broken: int
    """Lines that were damaged on the nodes."""
    lost: tuple[str, ...]
    """Nodes whose log had dropped events before they were fetched."""
    failed: tuple[tuple[str, str], ...]
    interrupted: bool = False


def groups(
    names: Sequence[str], known: Mapping[str, NodeRow]
) -> list[tuple[float, tuple[str, ...]]]:
    """(ask from, nodes): nodes that were last asked at about the same time together. Pure."""
    by_time = sorted((known[name].asked_from if name in known else 0.0, name) for name in names)
    found: list[tuple[float, list[str]]] = []
    for since, name in by_time:
        if found and (since - found[-1][0] <= ALIKE_S or len(found) == MAX_GROUPS):
            found[-1][1].append(name)
        else:
            found.append((since, [name]))
    return [(since, tuple(members)) for since, members in found]


class Collector:
    """One collect: takes what nodes hand out, and counts."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._known = store.nodes()
        self._answers: Counter[str] = Counter()
        self._events = self._new = self._refused = self._broken = 0
        self._lost: list[str] = []
        self._failed: list[tuple[str, str]] = []
        self._bad: dict[str, str] = {}

    def run(self, names: Sequence[str], ask: Ask, errand: Errand) -> Summary:
        """Ask all of these nodes. Raises HistoryError where the database can't be written."""
        interrupted = False
        for since, members in groups(names, self._known):
            question = HistoryErrand(
                program=errand.program, timeout_s=errand.timeout_s, fanout=errand.fanout,
                since=since,
            )  # fmt: skip
            interrupted = ask(members, question, self._finished, self._take)
            if interrupted:
                break
        return Summary(
            len(names), dict(self._answers), self._events, self._new, self._refused,
            self._broken, tuple(self._lost), tuple(self._failed), interrupted,
        )  # fmt: skip

    def _take(self, node: str, data: bytes) -> None:
        """Store one node's answer."""
        now = self._clock()
        try:
            export, refused = read_export(data, node, now)
        except ValueError as error:
            self._bad[node] = str(error)[:300]
            return
        before = self._known.get(node) or NodeRow(node)
        first = min([before.first_at or now, now, *(event.at for event in export.events)])
        row = NodeRow(
            node,
            profile=export.profile or before.profile,
            first_at=first,
            last_at=now,
            # A node whose clock is ahead must not skip what it tells once that is mended.
            asked_from=max(0.0, min(export.now, now) - OVERLAP_S),
            tried_at=now,
            answer=Answer.REPORTED.value,
            detail=None,
            lost=before.lost + export.lost,
        )
        self._new += self._store.collected(export.events, row)
        self._events += len(export.events)
        self._refused += refused
        self._broken += export.broken
        if export.lost:
            self._lost.append(node)

    def _finished(self, result: NodeResult) -> None:
        """Count one node's answer; keep what was wrong with it."""
        answer, detail = result.answer, result.detail
        if result.node in self._bad:
            answer, detail = Answer.GARBAGE, self._bad[result.node]
        self._answers[answer.value] += 1
        if answer is Answer.REPORTED:
            return
        self._failed.append((result.node, f"{answer.value}: {detail}" if detail else answer.value))
        before = self._known.get(result.node) or NodeRow(result.node)
        self._store.note(
            msgspec.structs.replace(
                before, tried_at=self._clock(), answer=answer.value, detail=detail[:400] or None
            )
        )
