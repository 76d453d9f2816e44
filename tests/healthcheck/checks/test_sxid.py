"""NVSwitch errors: the line's own word decides, then the guide's list."""

import pytest

from healthcheck.checks.sxid import sxid
from healthcheck.knowledge import sxids
from healthcheck.model import Action, Baseline, Event, KernelEvent, KernelLog, Severity, Snapshot
from healthcheck.registry import NoLimits

SWITCH = "0000:aa:00.0"
NOW = 1_700_000_000.0


def judge(*lines, remembered=(), accepted_at=0.0):
    events = tuple(
        KernelEvent("sxid", i, 500.0 + i, text, code, SWITCH)
        for i, (code, text) in enumerate(lines)
    )
    node = Snapshot(
        "n",
        NOW,
        boot_id="now",
        uptime_s=1000.0,
        kernel_log=KernelLog(9, events),
        baseline=Baseline(events=tuple(remembered), accepted_at=accepted_at),
    )
    return list(sxid(node, NoLimits()))


CASES = [
    (24007, "Fatal, Link 44 sourcetrack timeout error (First)", Severity.FAIL),
    (24007, "Severity 1 Engine instance 12 Sub-engine instance 00", Severity.FAIL),
    (20034, "Fatal, Link 30 LTSSM Fault Up", Severity.FAIL),
    (20034, "Data {0x50610002, 0x10100030}", Severity.FAIL),  # no word: the list says fatal
    (23001, "Non-fatal, Link 3", Severity.FAIL),  # always fatal, whatever the line says
    (24007, "Non-fatal, Link 44", Severity.WARN),
    (28006, "Non-fatal, Link 46 MC TS crumbstore MCTO (First)", Severity.WARN),
    (28006, "Severity 0 Engine instance 46 Sub-engine instance 00", Severity.WARN),
    (12028, "Non-fatal, Link 32 egress non-posted PRIV error", Severity.WARN),
    (11012, "", Severity.WARN),
    (99999, "", Severity.WARN),  # unknown code without a word: review
    (99999, "Fatal, Link 1", Severity.FAIL),
    (22013, "Non-fatal, Link 1 Minion Link DLREQ interrupt", Severity.INFO),
]


@pytest.mark.parametrize(("code", "text", "severity"), CASES)
def test_severity_of_an_sxid(code, text, severity):
    (finding,) = judge((code, text))
    assert (finding.severity, finding.subject) == (severity, SWITCH)
    assert f"SXid {code}" in finding.message
    assert (finding.action is Action.REBOOT) == (severity is Severity.FAIL)


def test_the_lines_of_one_error_are_one_finding():
    (finding,) = judge(
        (24007, "Severity 1 Engine instance 12 Sub-engine instance 00"),
        (24007, "Data {0x10000000, 0x10008100, 0x10000000, 0x10008100}"),
    )
    assert finding.measured == 2
    assert "Engine instance 12" in finding.message


def test_a_fatal_line_after_a_nonfatal_one_decides():
    (finding,) = judge((24007, "Non-fatal, Link 44"), (24007, "Fatal, Link 44"))
    assert finding.severity is Severity.FAIL


@pytest.mark.parametrize(("boot", "accepted_at"), [("before", 0.0), ("now", NOW - 1)])
def test_an_sxid_of_an_earlier_boot_or_an_accepted_one_passes(boot, accepted_at):
    old = Event("sxid", NOW - 60, boot, 24007, SWITCH, "Fatal, Link 44")
    assert judge(remembered=[old], accepted_at=accepted_at) == []


def test_a_harmless_sxid_is_told_once():
    old = Event("sxid", NOW - 60, "now", 22013, SWITCH, "Non-fatal, Link 1")
    assert judge(remembered=[old]) == []


def test_every_sxid_of_the_guide_has_a_severity_and_advice():
    assert len(sxids()) > 80
    for entry in sxids().values():
        assert entry.severity in ("fatal", "always-fatal", "nonfatal", "benign")
        assert entry.name
        assert entry.advice
