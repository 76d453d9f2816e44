"""processes."""

import pytest

from healthcheck.checks.processes import Limits, processes
from healthcheck.model import Action, Finding, Processes, Severity, Snapshot


def judge(seen: Processes, **limits: int) -> list[Finding]:
    return list(processes(Snapshot("n1", 0.0, processes=seen), Limits(**limits)))


@pytest.mark.parametrize(
    ("zombies", "severity"),
    [(0, None), (999, None), (1000, Severity.WARN), (1999, Severity.WARN), (2000, Severity.FAIL)],
)
def test_zombies(zombies: int, severity: Severity | None) -> None:
    findings = judge(Processes(5000, zombies, 0))
    assert [f.severity for f in findings] == ([severity] if severity else [])


def test_a_few_blocked_processes_are_ordinary() -> None:
    assert judge(Processes(100, 0, 15, ("7 cp",))) == []


def test_many_blocked_processes_warn_and_are_named() -> None:
    names = tuple(f"{pid} python" for pid in range(16))
    (found,) = judge(Processes(100, 0, 30, names))
    assert found.severity is Severity.WARN
    assert "0 python" in found.message
    assert "22 more" in found.message


def test_a_site_may_fail_them() -> None:
    (found,) = judge(Processes(100, 0, 30), blocked_fail=20)
    assert (found.severity, found.action) == (Severity.FAIL, Action.REBOOT)


def test_one_stuck_tool_of_the_driver_is_enough_to_warn() -> None:
    (found,) = judge(Processes(100, 0, 2, ("7 cp", "4711 nvidia-smi")))
    assert (found.severity, found.action) == (Severity.WARN, Action.REBOOT)
    assert "4711 nvidia-smi" in found.message
    assert "7 cp" not in found.message


def test_contradicting_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="zombies_warn"):
        Limits(zombies_warn=3000)
    with pytest.raises(ValueError, match="blocked_warn"):
        Limits(blocked_fail=2)
