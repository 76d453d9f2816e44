"""How an attempt to drain a node ended."""

from enum import StrEnum

import msgspec


class Drained(StrEnum):
    """How an attempt to drain ended."""

    DRAINED = "drained"
    LEFT_TO_SLURM = "left-to-slurm"
    """Within the budget, but the update failed: the non-zero exit drains ("Prolog error")."""
    ALREADY_OURS = "already-ours"
    FOREIGN = "foreign"
    OVER_BUDGET = "over-budget"
    DRY_RUN = "dry-run"
    FAILED_OPEN = "failed-open"
    """Slurm did not answer: the node is not drained and the job runs."""
    FAILED_CLOSED = "failed-closed"
    """Slurm did not answer: the non-zero exit drains, because `without_slurm` says so."""


class Decision(msgspec.Struct, frozen=True):
    """What was done about a failing node. `fail_job`: the hook must exit non-zero."""

    outcome: Drained
    fail_job: bool
    message: str
    reason: str
    reads: int = 0
    updates: int = 0

    @property
    def held(self) -> bool:
        """Whether Slurm holds the node out of service now, whatever the hook's exit code."""
        return self.outcome in (Drained.DRAINED, Drained.ALREADY_OURS, Drained.FOREIGN)
