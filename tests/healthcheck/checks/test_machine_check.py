"""Machine checks and EDAC: what lost data fails, what was corrected warns."""

import pytest

from healthcheck.checks.machine_check import Limits, is_uncorrected, machine_check
from healthcheck.model import Action, Event, Severity, Snapshot
from healthcheck.model.machine import KernelLog
from healthcheck.model.snapshot import Baseline

NOW = 1_700_000_000.0

UNCORRECTED = [
    "mce: [Hardware Error]: CPU 2: Machine Check Exception: 5 Bank 5: be00000000800400",
    "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: fe00008000010090",
    "mce: Uncorrected hardware memory error in user-access at 3f0a2f4c40",
    "{1}[Hardware Error]: event severity: fatal",
    "{12}[Hardware Error]: event severity: recoverable",
    "[Hardware Error]: Uncorrected, software restartable error.",
    "[Hardware Error]: System Fatal error.",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
    "Memory failure: 0x1a2b3c: recovery action for dirty LRU page: Recovered",
    "MCE: Killing python:4711 due to hardware memory corruption fault at 7f00",
]
CORRECTED = [
    "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: cc00008000010090",
    "mce: [Hardware Error]: Machine check events logged",
    "mce: CMCI storm detected: switching to poll mode",
    "{1}[Hardware Error]: event severity: corrected",
    "[Hardware Error]: Corrected error, no action required.",
    "[Hardware Error]: Deferred error, no action required.",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
]


@pytest.mark.parametrize("line", UNCORRECTED)
def test_what_lost_data_is_uncorrected(line):
    assert is_uncorrected(line)


@pytest.mark.parametrize("line", CORRECTED)
def test_what_was_corrected_is_not(line):
    assert not is_uncorrected(line)


def judge(*events, limits=None):
    node = Snapshot(
        "n", NOW, boot_id="now", kernel_log=KernelLog(1), baseline=Baseline(events=events)
    )
    return list(machine_check(node, limits or Limits()))


def memory(line, count=1, boot="now"):
    return Event("memory", NOW - 60, boot, None, "mc0", line, count=count)


def test_an_uncorrected_error_drains_and_names_the_dimm():
    (finding,) = judge(memory(UNCORRECTED[7]))
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.DRAIN)
    assert finding.subject == "mc0"
    assert "DIMM#0" in finding.message


def test_corrected_errors_are_a_warning_with_their_number():
    (finding,) = judge(memory(CORRECTED[-1], 5), memory(CORRECTED[-1], 2))
    assert (finding.severity, finding.measured) == (Severity.WARN, 7)


def test_fewer_than_the_limit_is_only_told():
    (finding,) = judge(memory(CORRECTED[-1], 5), limits=Limits(corrected_warn=10))
    assert finding.severity is Severity.INFO


def test_the_worst_comes_first_and_neither_hides_the_other():
    findings = judge(memory(CORRECTED[-1]), memory(UNCORRECTED[7]))
    assert [finding.severity for finding in findings] == [Severity.FAIL, Severity.WARN]


def test_an_error_before_the_reboot_passes():
    assert judge(memory(UNCORRECTED[7], boot="before")) == []
