"""The course of a run, as the coordinator flies it: all together, then localise."""

import time
from collections.abc import Callable, Sequence
from typing import Literal

from slurm_integration.allreduce_nodes.conclude import conclude, judge_with
from slurm_integration.allreduce_nodes.coordinator import SLACK_S, Coordinator
from slurm_integration.allreduce_nodes.model import Conclusion, Measured, Rule
from slurm_integration.allreduce_nodes.schedule import next_round

Localise = Literal["auto", "always", "never"]
LEAST_S = 8.0
"""A test that has less time than this is not begun."""
MOST_ROUNDS = 8


class Flight:
    """One run over all nodes that are there."""

    def __init__(
        self, table: Coordinator, rule: Rule, localise: Localise, deadline: float,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.table = table
        self.rule = rule
        self.tests: list[Measured] = []
        self._localise = localise
        self._deadline = deadline
        self._tell = tell

    def fly(self, absent: Sequence[str]) -> Conclusion:
        """Run what is needed and conclude."""
        table = self.table
        table.one_backend()
        nodes = table.able()
        if len(nodes) > 1:
            whole = self._together(nodes)
            if self._needed(whole):
                self._alone()
                # Two nodes are one pair, which has just been tested.
                self._rounds(whole)
        return conclude(table.step.nodes, absent, table.own_faults, self.tests, self.rule)

    def _together(self, nodes: Sequence[str]) -> Measured:
        whole = self._measure([nodes], "whole", 0, light=False)[0]
        self.tests.append(whole)
        return whole

    def _needed(self, whole: Measured) -> bool:
        """Whether to localise: a set that fails or is slow, or whose figure says nothing yet."""
        if self._localise != "auto":
            return self._localise == "always"
        return self.rule.expected_gb_s is None or not judge_with(self.tests, self.rule)(whole)

    def _alone(self) -> None:
        """Each node by itself, all at once, where it has ranks to test among themselves."""
        several = [n for n in self.table.able() if self.table.seats[n].hello.local > 1]
        if several and self._left() >= LEAST_S and self.tests[0].end != "ok":
            self.tests += self._measure([[n] for n in several], "alone", 0, light=False)

    def _rounds(self, whole: Measured) -> None:
        for turn in range(1, MOST_ROUNDS):
            broken = {t.nodes[0] for t in self.tests if t.kind == "alone" and t.end != "ok"}
            nodes = [name for name in self.table.able() if name not in broken]
            if turn == 1 and len(nodes) == 2 and {*whole.nodes} == {*nodes}:
                self.tests.append(_as_pair(whole))
                continue
            waves = next_round(nodes, self.tests, judge_with(self.tests, self.rule))
            for wave in waves:
                here = {*self.table.able()}
                groups = [group for group in wave if here.issuperset(group)]
                if not groups:
                    continue
                if self._left() < LEAST_S:
                    self._tell(f"no time left for round {turn}")
                    return
                # What failed with wrong bits must be looked at with all operations again.
                light = whole.end != "corrupt"
                self.tests += self._measure(groups, "pair", turn, light=light)
            if not waves:
                return

    def _measure(
        self, groups: Sequence[Sequence[str]], kind: str, turn: int, *, light: bool
    ) -> list[Measured]:
        seconds = max(1.0, self._left() * 0.45)
        return self.table.measure(groups, kind, turn, seconds, light=light)  # type: ignore[arg-type]

    def _left(self) -> float:
        return self._deadline - SLACK_S - time.monotonic()


def _as_pair(whole: Measured) -> Measured:
    import msgspec

    return msgspec.structs.replace(whole, kind="pair", round=1)
