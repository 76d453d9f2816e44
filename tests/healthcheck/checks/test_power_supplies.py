"""power-supplies: what is told of each state, and what is not taken for health."""

import pytest

from healthcheck.checks.power_supplies import Limits, power_supplies
from healthcheck.model import Action, Finding, NotApplicable, PowerSupply, Severity, Snapshot
from healthcheck.model import Unmeasured as UnmeasuredError

ABSENT = PowerSupply("ipmitool", "absent", "ipmi", "no /dev/ipmi0", kind="source")
FAILED = PowerSupply("ipmitool", "unknown", "ipmi", "no answer within 4 s", kind="source")


def psu(state: str, number: int = 1, detail: str | None = None) -> PowerSupply:
    return PowerSupply(f"PS{number}", state, "ipmi", detail, kind="supply")


def judge(*sensors: PowerSupply, **limits: int) -> list[Finding]:
    node = Snapshot("n1", 0.0, power_supplies=sensors)
    return list(power_supplies(node, Limits(**limits)))


def test_working_supplies_pass() -> None:
    redundancy = PowerSupply("PS Redundancy", "ok", "ipmi", "Fully Redundant", "redundancy")
    assert judge(psu("ok"), psu("ok", 2), redundancy, supplies=2, min_working=1) == []


@pytest.mark.parametrize(
    ("state", "severity", "action"),
    [
        ("failed", Severity.WARN, Action.REPLACE),
        ("input-lost", Severity.WARN, Action.NONE),
        ("redundancy-lost", Severity.WARN, Action.NONE),
        ("alarm", Severity.WARN, Action.NONE),
        ("insufficient", Severity.FAIL, Action.DRAIN),
    ],
)
def test_each_bad_state(state: str, severity: Severity, action: Action) -> None:
    (found,) = judge(psu("ok"), psu(state, 2, "what it said"))
    assert (found.severity, found.action, found.subject) == (severity, action, "PS2")
    assert "what it said" in found.message


def test_an_empty_bay_is_no_fault_by_itself() -> None:
    assert judge(psu("ok"), psu("absent", 2)) == []


def test_a_missing_supply_warns_where_the_profile_counts_them() -> None:
    (found,) = judge(psu("ok"), psu("absent", 2), supplies=2)
    assert (found.severity, found.measured, found.expected) == (Severity.WARN, 1, 2)


def test_too_few_working_supplies_fail() -> None:
    findings = judge(psu("ok"), psu("failed", 2), psu("input-lost", 3), min_working=2)
    assert [f.severity for f in findings] == [Severity.WARN, Severity.WARN, Severity.FAIL]
    assert findings[-1].limit == "min_working"


def test_a_sensor_without_reading_is_not_counted_as_broken() -> None:
    assert judge(psu("ok"), psu("unknown", 2), min_working=2, supplies=2) == []


def test_nothing_there_is_not_applicable() -> None:
    for sensors in ((), (ABSENT,)):
        with pytest.raises(NotApplicable, match="no power supply sensors"):
            judge(*sensors)


def test_nothing_there_is_unmeasured_where_the_profile_counts() -> None:
    with pytest.raises(UnmeasuredError, match="no /dev/ipmi0"):
        judge(ABSENT, supplies=6)


def test_a_controller_that_does_not_answer_is_unmeasured() -> None:
    with pytest.raises(UnmeasuredError, match="no answer within 4 s"):
        judge(FAILED)


def test_a_controller_that_does_not_answer_hides_no_alarm() -> None:
    alarm = PowerSupply("pmbus hwmon1", "alarm", "hwmon", "in1_alarm")
    findings = judge(alarm, FAILED)
    assert [f.subject for f in findings] == ["pmbus hwmon1", "node"]
    assert "no answer within 4 s" in findings[1].message


def test_sensors_that_all_give_no_reading_are_unmeasured() -> None:
    with pytest.raises(UnmeasuredError, match="none of 2"):
        judge(psu("unknown"), psu("unknown", 2))


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="more than supplies"):
        Limits(supplies=2, min_working=3)
