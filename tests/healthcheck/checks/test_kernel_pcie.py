"""PCIe errors in the kernel log: lost links fail, corrected storms warn."""

import pytest

from healthcheck.checks.kernel_pcie import Limits, kernel_pcie
from healthcheck.model import Action, Baseline, Event, KernelLog, PciDevice, Severity, Snapshot

NOW = 1_700_000_000.0
PORT = "0000:00:02.0"
PCI = (
    PciDevice(PORT, "bridge", "0x8086", "0x6f04"),
    PciDevice("0000:01:00.0", "bridge", "0x10b5", "0x8796", parent=PORT),
    PciDevice("0000:02:00.0", "gpu", "0x10de", "0x2330", parent="0000:01:00.0"),
)


def event(message, ago=60.0, boot="now", kind="pcie", count=1):
    return Event(kind, NOW - ago, boot, None, PORT, message, count=count)


def judge(*events, limits=None):
    node = Snapshot(
        "n", NOW, boot_id="now", pci=PCI, kernel_log=KernelLog(1), baseline=Baseline(events=events)
    )
    return list(kernel_pcie(node, limits or Limits()))


@pytest.mark.parametrize(
    "message",
    [
        "AER: Uncorrected (Fatal) error received: id=0010",
        "AER: Multiple Uncorrectable (Fatal) error message received from 0000:02:00.0",
        "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
        "[ 5] Surprise Down Error    (First)",
        "[ 5] SDES                   (First)",
        "DPC: containment event, status:0x1f01 source:0x0000",
        "AER: device recovery failed",
        "pciehp: Slot(1): Link Down",
        "pciehp: Slot(1): Card not present",
    ],
)
def test_a_fatal_error_or_a_lost_link_fails_and_names_the_gpu_behind_it(message):
    (finding,) = judge(event(message))
    assert (finding.severity, finding.subject) == (Severity.FAIL, PORT)
    assert finding.action is Action.REBOOT
    assert "gpu 0000:02:00.0" in finding.message


def test_a_real_surprise_down_is_one_finding():
    (finding,) = judge(
        event("AER: Corrected error received: id=0010", 200),
        event("PCIe Bus Error: severity=Corrected, type=Data Link Layer", 200),
        event("AER: Uncorrected (Fatal) error received: id=0010", 90),
        event("PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer", 90),
        event("[ 5] Surprise Down Error    (First)", 90),
    )
    assert finding.severity is Severity.FAIL
    assert finding.measured == 3


def test_a_link_that_came_back_is_a_warning():
    (finding,) = judge(
        event("pciehp: Slot(1): Link Down", 90), event("pciehp: Slot(1): Link Up", 80)
    )
    assert finding.severity is Severity.WARN


def test_a_card_that_somebody_asked_to_remove_passes():
    pressed = event("pciehp: Slot(1): Attention button pressed", 90)
    assert judge(pressed, event("pciehp: Slot(1): Link Down", 80)) == []


def test_a_nonfatal_error_is_a_warning():
    (finding,) = judge(event("AER: Uncorrected (Non-Fatal) error received: 0000:02:00.0"))
    assert finding.severity is Severity.WARN


def test_a_few_corrected_errors_pass_and_a_storm_warns():
    few = [event("AER: Corrected error received: 0000:00:03.0", ago) for ago in (90, 60)]
    assert judge(*few) == []
    (finding,) = judge(event("AER: Corrected error received: 0000:00:03.0", count=400))
    assert (finding.severity, finding.limit) == (Severity.WARN, "corrected_per_hour_warn")
    assert finding.measured == 400


def test_the_same_number_spread_over_a_day_is_no_storm():
    spread = [event("AER: Corrected error received: x", 82_000 - i * 7_200) for i in range(11)]
    assert judge(*spread) == []
    assert judge(*spread, limits=Limits(corrected_per_hour_warn=1))


def test_missing_power_cables_fail():
    text = "GPU 0000:02:00.0 does not have the necessary power cables connected."
    (finding,) = judge(event(text, kind="power"))
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.DRAIN)


def test_errors_before_the_reboot_pass():
    assert judge(event("AER: Uncorrected (Fatal) error received: id=0010", boot="before")) == []
