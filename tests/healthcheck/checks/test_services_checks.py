"""services."""

import pytest

from healthcheck.checks.services import services
from healthcheck.model import Action, Finding, NotApplicable, Severity, Snapshot
from healthcheck.model import Unmeasured as UnmeasuredError
from healthcheck.registry import NoLimits


def judge(**states: str) -> list[Finding]:
    return list(services(Snapshot("n1", 0.0, services=states), NoLimits()))


def test_running_services_pass() -> None:
    assert judge(slurmd="active", sssd="reloading") == []


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_service_that_does_not_run_fails(state: str) -> None:
    (found,) = judge(slurmd="active", fabricmanager=state)
    assert (found.severity, found.subject, found.action) == (
        Severity.FAIL,
        "fabricmanager",
        Action.DRAIN,
    )
    assert found.measured == state


@pytest.mark.parametrize("state", ["activating", "deactivating", "maintenance"])
def test_a_service_between_two_states_warns(state: str) -> None:
    assert [f.severity for f in judge(dcgm=state)] == [Severity.WARN]


def test_unknown_is_unmeasured_and_hides_no_failure() -> None:
    with pytest.raises(UnmeasuredError, match="the state of a"):
        judge(a="unknown")
    assert [f.severity for f in judge(a="unknown", b="failed")] == [Severity.FAIL, Severity.WARN]


def test_no_services_named_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        judge()
