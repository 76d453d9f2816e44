"""What a drill plays, and what came of it. Frozen."""

from enum import StrEnum

import msgspec


class Case(msgspec.Struct, frozen=True):
    """One fault (None: a healthy node) of one node type, looked at in one stage."""

    type: str
    stage: str
    fault: str | None = None


class End(StrEnum):
    """How a case ended."""

    FOUND = "found"
    MISSED = "missed"
    PASSED = "passed"
    """Nothing was to be found, and nothing was."""
    FALSE = "false"
    """Something was found that is not there."""
    NOT_HERE = "not-here"
    """This stage does not look for it, by design, and `why` says so; nothing else was found."""


class Played(msgspec.Struct, frozen=True):
    """The end of a case. `seconds`: from the first reading to the verdict.

    `wrong` says what was not as it should be: the verdict, the severity, the action, the decision,
    or who else was accused; empty where all was right. `subject` is the fault's family (gpu_bus,
    infiniband, …), "healthy" where there is no fault.
    """

    case: Case
    end: End
    seconds: float
    verdict: str
    decision: str
    subject: str = "healthy"
    check: str | None = None
    wrong: str = ""
    why: str = ""

    @property
    def good(self) -> bool:
        """Whether an operator would have been served well."""
        return self.end in (End.FOUND, End.PASSED, End.NOT_HERE) and not self.wrong
