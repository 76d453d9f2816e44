"""Draining one failing node: read first, stay within the budget, never touch what is not ours.

Calls made: one read where there is nothing to write (already drained, over budget, dry run). A
node that gets a seat, at most the budget's number in a window: read, claim, read, drain; where all
nodes share a folder (`seats_dir`): read, drain. The explicit drain comes before the prolog's
non-zero exit, because slurmctld leaves the reason of a drained node alone. Imported only on a node
that fails.
"""

import os
import time
from typing import NoReturn

from healthcheck.config import DrainSettings
from slurm_integration.budget import (
    SETTLE_S,
    Budget,
    Claim,
    Seats,
    count_seats,
    read_claim,
    with_claim,
)
from slurm_integration.budget import without_claim as site_comment
from slurm_integration.drain_outcome import Decision, Drained
from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.reason import as_reason
from slurm_integration.scontrol import Scontrol
from slurm_integration.seats import SeatsError, leave_to_slurm, take_seat

__all__ = ("ROUNDS", "Decision", "Drained", "drain_node")

ROUNDS = 3
"""Claims that may turn out void before the controller is taken for too slow."""
_MARGIN_S = 0.05


class _Ending(Exception):  # noqa: N818 - an answer, not an error
    """Carries the outcome out of the protocol."""

    def __init__(self, outcome: Drained, message: str, *, fail_job: bool = False) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message
        self.fail_job = fail_job


def drain_node(
    reason: str,
    settings: DrainSettings,
    node: str,
    job_id: int | None,
    deadline: float,
    *,
    dry_run: bool,
) -> Decision:
    """Drain `node` for `reason` as `settings` allow; `deadline` is in `time.monotonic()` seconds.

    Never raises for anything Slurm does. Returns no later than about 0.2 s after the deadline.
    """
    text = as_reason(reason, job_id)
    slurm = Scontrol(settings.scontrol or "", settings.timeout_s)
    attempt = _Attempt(slurm, settings, node, text, deadline, dry_run=dry_run)
    try:
        attempt.run()
    except _Ending as end:
        return Decision(end.outcome, end.fail_job, end.message, text, slurm.reads, slurm.updates)
    raise AssertionError("an attempt ends by saying how")


class _Attempt:
    """One node's way through the protocol of budget.py."""

    def __init__(
        self,
        slurm: Scontrol,
        settings: DrainSettings,
        node: str,
        reason: str,
        deadline: float,
        *,
        dry_run: bool,
    ) -> None:
        self.slurm = slurm
        self.settings = settings
        self.dry_run = dry_run
        self.budget = Budget.of(settings)
        self.node = node
        self.reason = reason
        self.deadline = deadline

    def run(self) -> None:
        """Ends by raising _Ending."""
        self._sleep(_random() * self.settings.jitter_s)
        if self.settings.seats_dir:
            self._take_shared(self.settings.seats_dir)
        claimed = False
        for _ in range(ROUNDS):
            started = time.monotonic()
            claim = self._claim(started)
            claimed = claimed or claim is not None
            if claim is None or time.monotonic() - started > SETTLE_S:
                continue  # others may have looked before it was written: void
            self._sleep(SETTLE_S + _MARGIN_S)
            self._settle(claim)
        if claimed:
            self._withdraw(self._look(withdraw=True)[1])
        self._without_slurm(
            f"slurmctld is too slow to take a seat in the budget: {ROUNDS} times it took longer "
            f"than {SETTLE_S} s for a read and an update (seats_dir in [drain] needs no haste)"
        )

    def _take_shared(self, folder: str) -> None:
        """One read and one update at most; seats.py has the argument."""
        nodes, me = self._look()
        seats = self._count(nodes)
        if seats.free < 1:
            self._over_budget(seats.describe())
        drained = {node.name for node in nodes if node.ours}
        until = min(self.deadline, time.monotonic() + self.settings.timeout_s)
        try:
            seat = take_seat(folder, self.node, seats.free, drained, self.settings.window_s, until)
        except SeatsError as error:
            self._without_slurm(f"no seat could be taken in seats_dir: {error}")
        if seat.ticket is None:
            self._over_budget(f"{seats.describe()}, {seat.ahead} seats taken in {folder}")
        try:
            self._drain(me)
        except _Ending as end:
            if end.outcome is Drained.LEFT_TO_SLURM and seat.ticket is not None:
                leave_to_slurm(folder, seat.ticket, self.deadline)
            raise

    def _count(self, nodes: list[NodeState]) -> Seats:
        """What is left of the budget; the end of a dry run."""
        seats = count_seats(nodes, self.node, self.budget, time.time())
        if self.dry_run:
            would = "would drain" if seats.free > 0 else "would only alert, over budget"
            raise _Ending(
                Drained.DRY_RUN, f"dry run, nothing drained: {would} ({seats.describe()})"
            )
        return seats

    def _claim(self, started: float) -> Claim | None:
        """Write a claim; None where reading alone took too long for one to be worth anything."""
        nodes, me = self._look()
        seats = self._count(nodes)
        if seats.hopeless:
            self._withdraw(me)
            self._over_budget(seats.describe())
        if time.monotonic() - started > SETTLE_S:
            return None
        if self._left() < SETTLE_S + _MARGIN_S * 2:
            self._without_slurm(f"{self._left():.1f} s are too short to take a seat in the budget")
        claim = Claim(seats.next_ticket, int(time.time()))
        self._update({"Comment": with_claim(me.comment, claim)})
        return claim

    def _settle(self, claim: Claim) -> None:
        """Drain or withdraw. Returns only where somebody else overwrote the claim: begin again."""
        nodes, me = self._look(withdraw=True)
        if read_claim(me.comment) != claim:
            return
        seats = count_seats(nodes, self.node, self.budget, time.time(), claim)
        if seats.free < 1:
            self._withdraw(me)
            self._over_budget(seats.describe())
        self._drain(me)

    def _drain(self, me: NodeState) -> NoReturn:
        fields = {"State": "DRAIN", "Reason": self.reason, "Comment": site_comment(me.comment)}
        answer = self.slurm.update_nodes(self.node, fields, deadline=self.deadline)
        if answer.ok:
            raise _Ending(Drained.DRAINED, f"{self.node} drained: {self.reason}", fail_job=True)
        raise _Ending(
            Drained.LEFT_TO_SLURM,
            f"{answer.trouble()}; {self.node} has a seat in the budget: Slurm drains it for the "
            f"non-zero exit. The reason would have been: {self.reason}",
            fail_job=True,
        )

    def _look(self, *, withdraw: bool = False) -> tuple[list[NodeState], NodeState]:
        """All nodes and our own; ends the attempt where the node is already out of service."""
        answer = self.slurm.show_nodes(deadline=self.deadline)
        if not answer.ok:
            self._without_slurm(answer.trouble())
        nodes = parse_nodes(answer.stdout)
        me = next((node for node in nodes if node.name == self.node), None)
        if me is None:
            self._without_slurm(f"scontrol listed {len(nodes)} nodes, but not {self.node}")
        if me.held:
            if withdraw:
                self._withdraw(me)
            self._already_held(me)
        return nodes, me

    def _already_held(self, me: NodeState) -> None:
        # With DRAIN set, a non-zero exit changes nothing about the node; it only saves the job.
        fail_job = me.drain_flag and not self.dry_run
        since = f" (by {me.reason_user})" if me.reason_user else ""
        if me.ours:
            raise _Ending(
                Drained.ALREADY_OURS,
                f"{self.node} is already drained by flightcheck: {me.reason}",
                fail_job=fail_job,
            )
        raise _Ending(
            Drained.FOREIGN,
            f"{self.node} is already out of service{since}: {me.reason or 'no reason given'}; "
            f"left as it is. flightcheck found: {self.reason}",
            fail_job=fail_job,
        )

    def _over_budget(self, seats: str) -> NoReturn:
        raise _Ending(
            Drained.OVER_BUDGET,
            f"ALERT: {self.node} should be drained, but the drain budget is spent ({seats}); "
            f"the job runs. {self.reason}",
        )

    def _without_slurm(self, trouble: str) -> NoReturn:
        if self.dry_run:
            raise _Ending(Drained.DRY_RUN, f"dry run, nothing drained: would drain, but {trouble}")
        if self.settings.without_slurm == "fail-job":
            raise _Ending(
                Drained.FAILED_CLOSED,
                f"{trouble}; without_slurm = fail-job: Slurm drains {self.node} for the non-zero "
                f"exit, outside the budget. The reason would have been: {self.reason}",
                fail_job=True,
            )
        raise _Ending(
            Drained.FAILED_OPEN,
            f"ALERT: {self.node} should be drained, but {trouble}; the drain budget can't be "
            f"known, so the job runs. {self.reason}",
        )

    def _update(self, fields: dict[str, str]) -> None:
        answer = self.slurm.update_nodes(self.node, fields, deadline=self.deadline)
        if not answer.ok:
            self._without_slurm(answer.trouble())

    def _withdraw(self, me: NodeState) -> None:
        """Best effort: a claim that stays behind dies after CLAIM_LIFE_S."""
        if read_claim(me.comment):
            fields = {"Comment": site_comment(me.comment)}
            self.slurm.update_nodes(self.node, fields, deadline=self.deadline)

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, self._left())))


def _random() -> float:
    """0 to 1, without importing `random`."""
    return int.from_bytes(os.urandom(4), "big") / 2**32
