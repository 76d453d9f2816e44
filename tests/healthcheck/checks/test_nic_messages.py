"""What mlx5 says about power and health."""

import pytest

from healthcheck.checks.nic_messages import HealthLimits, nic_health, nic_power
from healthcheck.model import Action, Baseline, Event, KernelLog, Severity, Snapshot
from healthcheck.registry import NoLimits

NOW = 1_700_000_000.0
NIC = "0000:5c:00.0"


def event(message, ago=60.0, kind="nic", boot="now", count=1):
    return Event(kind, NOW - ago, boot, None, NIC, message, count=count)


def node(*events):
    return Snapshot(
        "n", NOW, boot_id="now", kernel_log=KernelLog(1), baseline=Baseline(events=events)
    )


def health(*events, downs=5):
    return list(nic_health(node(*events), HealthLimits(link_downs_per_day_warn=downs)))


@pytest.mark.parametrize(
    "message",
    [
        "Detected insufficient power on the PCIe slot (27W).",
        "Port module event[error]: module 0, Cable error, Power budget exceeded",
    ],
)
def test_a_power_message_is_one_warning_a_device(message):
    messages = [event(message, ago, "nic-power") for ago in (900, 60)]
    (finding,) = nic_power(node(*messages), NoLimits())
    assert (finding.severity, finding.subject, finding.measured) == (Severity.WARN, NIC, 2)
    assert message[:30] in finding.message


def test_a_power_message_before_the_reboot_passes():
    old = event("Detected insufficient power", kind="nic-power", boot="before")
    assert list(nic_power(node(old), NoLimits())) == []


@pytest.mark.parametrize(
    "message",
    [
        "device's health compromised - reached miss count",
        "Fatal error 1 detected",
        "assert_var[0] 0x00000001",
        "handling bad device here",
        "health recovery flow aborted, PCI reads still not working",
        "Health issue observed, firmware internal error, severity(3) ERROR:",
    ],
)
def test_a_failure_of_the_card_fails(message):
    (finding,) = health(event(message))
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.REBOOT)
    assert finding.subject == NIC


@pytest.mark.parametrize(
    "message",
    [
        "Health issue observed, high temperature, severity(4) WARNING:",
        "High temperature on sensors with bit set 0 1",
        "Port module event[error]: module 0, Cable error, No EEPROM/retry time out",
    ],
)
def test_trouble_short_of_failure_warns(message):
    (finding,) = health(event(message))
    assert finding.severity is Severity.WARN


def test_a_card_that_recovered_warns_until_it_fails_again():
    failed, mended = event("Fatal error 1 detected", 900), event("health recovery succeeded", 800)
    assert health(failed, mended)[0].severity is Severity.WARN
    again = event("device's health compromised - reached miss count", 60)
    assert health(failed, mended, again)[0].severity is Severity.FAIL


def test_a_link_that_comes_up_and_goes_down_now_and_then_passes():
    assert health(event("Link up"), event("Link down"), event("Link up")) == []


def test_a_flapping_link_is_a_warning_over_a_day_and_over_reboots():
    (finding,) = health(
        event("Link down", count=3), event("Link down", 7200, boot="before", count=2)
    )
    assert (finding.severity, finding.measured) == (Severity.WARN, 5)
    assert finding.limit == "link_downs_per_day_warn"
    assert health(event("Link down", count=3), event("Link down", 90_000, count=2)) == []
