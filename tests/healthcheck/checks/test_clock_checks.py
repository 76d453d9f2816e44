"""clock."""

import pytest

from healthcheck.checks.clock import Limits, clock
from healthcheck.model import Clock, Finding, Severity, Snapshot


def judge(synchronised: bool, error: float | None, **limits: float) -> list[Finding]:
    node = Snapshot("n1", 0.0, clock=Clock(synchronised, maximum_error_s=error))
    return list(clock(node, Limits(**limits)))


@pytest.mark.parametrize(
    ("synchronised", "error", "severity"),
    [
        (True, 0.004, None),
        (True, None, None),
        (True, 1.0, None),
        (True, 1.2, Severity.WARN),
        (False, 16.0, Severity.WARN),
        (False, None, Severity.WARN),
    ],
)
def test_a_clock(synchronised: bool, error: float | None, severity: Severity | None) -> None:
    assert [f.severity for f in judge(synchronised, error)] == ([severity] if severity else [])


def test_a_site_may_fail_a_wrong_clock() -> None:
    (found,) = judge(False, 16.0, fail_error_s=10.0)
    assert (found.severity, found.limit) == (Severity.FAIL, "fail_error_s")
    assert "no time service keeps it" in found.message


def test_contradicting_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="below max_error_s"):
        Limits(max_error_s=2.0, fail_error_s=1.0)
