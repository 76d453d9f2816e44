"""Drain what a sweep found sick: the prolog's policy and budget, many nodes at a time.

The protocol is budget.py's, with one claim for each node. Nodes with the same comment share one
update, and nodes with the same reason share another: Slurm is asked a handful of times however
many nodes fail.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from healthcheck.config import Config
from healthcheck.model import Action as Remedy
from healthcheck.model import Finding, Report, Verdict
from slurm_integration.budget import (
    SETTLE_S,
    Budget,
    Claim,
    Seats,
    count_seats,
    read_claim,
    with_claim,
    without_claim,
)
from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.policy import Do, decide
from slurm_integration.reason import PREFIX, drain_reason
from slurm_integration.scontrol import Scontrol
from slurm_integration.seats import SeatsError, take_seat
from slurm_integration.sweep.model import Action, NodeResult
from slurm_integration.sweep.nodeset import fold

_ROUNDS = 3
_SEAT_S = 5.0
"""Seconds for the file server of `seats_dir`."""
_Key = TypeVar("_Key")


class Wish(msgspec.Struct, frozen=True):
    """A node that should leave service, and the reason Slurm would show."""

    node: str
    reason: str


def wishes(results: Iterable[NodeResult], config: Config) -> tuple[list[Wish], list[Action]]:
    """Who should be drained by the policy of every stage, and what is only told. Pure.

    A host that calls itself by another name than it was asked by is never drained: it may not
    be that node.
    """
    found, told = [], []
    for result in results:
        if result.verdict is not Verdict.NO_GO:
            continue
        decision = decide(msgspec.convert(result.report, Report), config)
        if result.detail:
            told.append(Action("alert", (result.node,), f"not drained: it {result.detail}"))
        elif decision.do is Do.DRAIN:
            found.append(Wish(result.node, _reason(decision.findings)))
        elif decision.do is not Do.PASS:
            text = _reason(decision.findings).removeprefix(PREFIX)
            told.append(Action("alert", (result.node,), f"not drained, by policy: {text}"))
    return found, told


def _reason(failed: Sequence[tuple[str, Finding]]) -> str:
    pairs = [
        (check, f"{f.subject}: {f.message}" if f.subject not in f.message else f.message)
        for check, f in failed
    ]
    return drain_reason(pairs, replace=any(f.action is Remedy.REPLACE for _, f in failed))


class Drainer:
    """Carries wishes out, or says what it would do."""

    def __init__(
        self,
        slurm: Scontrol,
        config: Config,
        *,
        dry_run: bool,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slurm = slurm
        self._budget = Budget.of(config.drain)
        self._seats_dir = config.drain.seats_dir
        self._dry_run = dry_run
        self._clock, self._sleep = clock, sleep

    def drain(self, wanted: Sequence[Wish]) -> list[Action]:
        """What was done about each of them. Never raises for anything Slurm does."""
        actions: list[Action] = []
        left = list(wanted)
        for _ in range(_ROUNDS):
            if not left:
                break
            left = self._round(left, actions)
        if left:
            nodes = tuple(wish.node for wish in left)
            actions.append(Action("failed", nodes, "others write to these nodes: sweep again"))
        return _joined(actions)

    def _round(self, wanted: list[Wish], actions: list[Action]) -> list[Wish]:
        """One claim each, wait, look, drain the winners; those to try again."""
        started = self._clock()
        nodes = self._look(wanted, actions)
        if nodes is None:
            return []
        wanted = _still_open(wanted, nodes, actions)
        if not wanted:
            return []
        first = count_seats(list(nodes.values()), "", self._budget, time.time())
        wanted, over = wanted[: max(0, first.free)], wanted[max(0, first.free) :]
        for wish in over:
            why = f"{wish.reason} (budget: {first.describe()})"
            actions.append(Action("over-budget", (wish.node,), why))
        if self._dry_run:
            actions += [Action("would-drain", (wish.node,), wish.reason) for wish in wanted]
            return []
        if not wanted:
            return []
        claim = Claim(first.next_ticket, int(time.time()))
        if not self._claim(wanted, nodes, claim, actions):
            return []
        if self._clock() - started > SETTLE_S:
            return wanted  # others may have looked before it was written: void
        self._sleep(SETTLE_S + 0.05)
        return self._settle(wanted, claim, actions)

    def _claim(
        self,
        wanted: Sequence[Wish],
        nodes: Mapping[str, NodeState],
        claim: Claim,
        actions: list[Action],
    ) -> bool:
        for comment, members in _grouped((nodes[w.node].comment, w.node) for w in wanted).items():
            fields = {"Comment": with_claim(comment, claim)}
            answer = self._slurm.update_nodes(fold(members), fields)
            if not answer.ok:
                actions.append(Action("failed", tuple(w.node for w in wanted), answer.trouble()))
                return False
        return True

    def _settle(self, wanted: Sequence[Wish], claim: Claim, actions: list[Action]) -> list[Wish]:
        nodes = self._look(wanted, actions)
        if nodes is None:
            return []
        still = _still_open(wanted, nodes, actions)
        winners, again, losers = [], [], [w for w in wanted if w not in still and w.node in nodes]
        everyone = list(nodes.values())
        for wish in still:
            if read_claim(nodes[wish.node].comment) != claim:
                again.append(wish)
                continue
            seats = count_seats(everyone, wish.node, self._budget, time.time(), claim)
            trouble = "" if seats.free >= 1 else seats.describe()
            trouble = trouble or self._no_shared_seat(wish.node, seats, everyone)
            if not trouble:
                winners.append(wish)
            else:
                losers.append(wish)
                why = f"{wish.reason} (budget: {trouble})"
                actions.append(Action("over-budget", (wish.node,), why))
        self._withdraw([w.node for w in losers], nodes)
        self._drain(winners, nodes, actions)
        return again

    def _no_shared_seat(self, node: str, seats: Seats, everyone: Sequence[NodeState]) -> str:
        """Prologs that take their seats in `seats_dir` see ours there. Why it has none, or ""."""
        if not self._seats_dir:
            return ""
        drained = {one.name for one in everyone if one.ours}
        until = time.monotonic() + _SEAT_S
        try:
            # Those of this sweep that come before it have their seats there already.
            seat = take_seat(self._seats_dir, node, seats.left, drained, self._budget.window_s,
                             until)  # fmt: skip
        except SeatsError as error:
            return f"no seat in seats_dir: {error}"
        return "" if seat.ticket is not None else f"{seats.describe()}, {seat.ahead} seats taken"

    def _drain(
        self, winners: Sequence[Wish], nodes: Mapping[str, NodeState], actions: list[Action]
    ) -> None:
        alike = _grouped(
            ((wish.reason, without_claim(nodes[wish.node].comment)), wish.node) for wish in winners
        )
        for (reason, comment), members in alike.items():
            fields = {"State": "DRAIN", "Reason": reason, "Comment": comment}
            answer = self._slurm.update_nodes(fold(members), fields)
            done = Action("drained", tuple(members), reason)
            failed = Action("failed", tuple(members), f"{answer.trouble()}; {reason}")
            actions.append(done if answer.ok else failed)

    def _withdraw(self, names: Sequence[str], nodes: Mapping[str, NodeState]) -> None:
        """Best effort: a claim that stays behind dies by itself."""
        claimed = [name for name in names if read_claim(nodes[name].comment)]
        for comment, members in _grouped(
            (without_claim(nodes[name].comment), name) for name in claimed
        ).items():
            self._slurm.update_nodes(fold(members), {"Comment": comment})

    def _look(self, wanted: Sequence[Wish], actions: list[Action]) -> dict[str, NodeState] | None:
        answer = self._slurm.show_nodes()
        if answer.ok:
            return {node.name: node for node in parse_nodes(answer.stdout)}
        actions.append(Action("failed", tuple(w.node for w in wanted), answer.trouble()))
        return None


def _still_open(
    wanted: Sequence[Wish], nodes: Mapping[str, NodeState], actions: list[Action]
) -> list[Wish]:
    """Those in service; the others are told, and left as they are (law 6)."""
    still = []
    for wish in wanted:
        node = nodes.get(wish.node)
        if node is None:
            actions.append(Action("failed", (wish.node,), "Slurm knows no node of this name"))
        elif node.ours:
            actions.append(Action("held-by-us", (wish.node,), node.reason or ""))
        elif node.held:
            by = f" by {node.reason_user}" if node.reason_user else ""
            why = f"held{by}: {node.reason or 'no reason given'}; found: {wish.reason}"
            actions.append(Action("held-by-others", (wish.node,), why))
        else:
            still.append(wish)
    return still


def _grouped(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, list[str]]:
    groups: dict[_Key, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def _joined(actions: Sequence[Action]) -> list[Action]:
    """Equal ones once, with all their nodes."""
    groups: dict[tuple[str, str], list[str]] = {}
    for action in actions:
        groups.setdefault((action.what, action.reason), []).extend(action.nodes)
    return [Action(what, tuple(nodes), reason) for (what, reason), nodes in groups.items()]
