"""Memory errors: growth judges, totals do not; spares and the driver's own word."""

from datetime import date

import pytest

from healthcheck.config import CheckSettings
from healthcheck.judge import judge_one
from healthcheck.model import Baseline, Counter, Ending, Gpu, Snapshot
from healthcheck.profile import Profile
from healthcheck.registry import load_checks

DAY = date(2026, 12, 1)


def outcome(name, node, **limits):
    """How a check ends on this node; limits as a site would set them."""
    declared = load_checks()[0][name]
    return judge_one(node, declared, Profile("p", "P"), CheckSettings(limits=limits), DAY)


def told(name, node, **limits):
    """(severity, subject, action) of all findings."""
    return [
        (str(f.severity), f.subject, str(f.action)) for f in outcome(name, node, **limits).findings
    ]


GPU = "0000:1b:00.0"
HOUR = 3600.0


def node(before=None, *, rebooted=False, **facts):
    """A GPU now, and its counters an hour ago."""
    baseline = None
    if before is not None:
        counters = {f"{GPU}|{name}": Counter(value, 1000.0) for name, value in before.items()}
        baseline = Baseline(boot_id="old" if rebooted else "boot", counters=counters)
    return Snapshot(
        "n",
        1000.0 + HOUR,
        boot_id="boot",
        uptime_s=600.0,
        gpus=(Gpu(0, GPU, **facts),),
        pci=(),
        baseline=baseline,
    )


VOLATILE, AGGREGATE = "ecc_volatile_uncorrected", "ecc_aggregate_uncorrected"
FAIL = [("fail", GPU, "reset-gpu")]


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({VOLATILE: 0, AGGREGATE: 40}, {VOLATILE: 0, AGGREGATE: 40}, []),
        ({VOLATILE: 2, AGGREGATE: 40}, {VOLATILE: 2, AGGREGATE: 40}, []),
        ({VOLATILE: 0, AGGREGATE: 40}, {VOLATILE: 1, AGGREGATE: 41}, FAIL),
        ({VOLATILE: 5}, {VOLATILE: 2}, FAIL),  # counted anew since a driver restart
        ({VOLATILE: 5}, {VOLATILE: 0}, []),  # reset, and clean since
        (None, {VOLATILE: 0, AGGREGATE: 40}, []),  # a lifetime count alone
        (None, {VOLATILE: 3, AGGREGATE: 40}, [("warn", GPU, "reset-gpu")]),
        ({}, {VOLATILE: 3}, [("warn", GPU, "reset-gpu")]),
    ],
)
def test_uncorrected_errors_are_judged_by_growth(before, now, found):
    facts = {"ecc_enabled": True, "persistence_mode": True, **now}
    assert told("gpu-ecc", node(before, **facts)) == found


def test_errors_before_the_drivers_last_start_are_only_told():
    before, now = {VOLATILE: 0, AGGREGATE: 40}, {VOLATILE: 0, AGGREGATE: 41}
    kept = node(before, rebooted=True, ecc_enabled=True, persistence_mode=True, **now)
    assert [severity for severity, _, _ in told("gpu-ecc", kept)] == ["info"]


def test_without_persistence_mode_the_lifetime_counter_judges():
    before, now = {VOLATILE: 0, AGGREGATE: 40}, {VOLATILE: 0, AGGREGATE: 41}
    forgetful = node(before, ecc_enabled=True, persistence_mode=False, **now)
    assert told("gpu-ecc", forgetful) == FAIL


@pytest.mark.parametrize(("now", "found"), [(1000, []), (1001, ["warn"])])
def test_corrected_errors_are_judged_by_rate(now, found):
    counts = {"ecc_volatile_corrected": now, VOLATILE: 0, "ecc_enabled": True}
    seen = told("gpu-ecc", node({"ecc_volatile_corrected": 0}, **counts))
    assert [severity for severity, _, _ in seen] == found


def test_the_srams_own_threshold_means_replacement():
    assert told("gpu-ecc", node(sram_threshold_exceeded=True)) == [("fail", GPU, "replace")]


@pytest.mark.parametrize("facts", [{"ecc_enabled": False, VOLATILE: 3}, {}])
def test_ecc_off_or_unknown_is_not_judged(facts):
    assert outcome("gpu-ecc", node(**facts)).outcome is Ending.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"remap_failed": False, "remap_pending": False, "remapped_uncorrectable": 512}, []),
        ({"remap_pending": True, "remap_failed": False}, [("warn", GPU, "reset-gpu")]),
        ({"remap_pending": True, "remap_failed": True}, [("fail", GPU, "replace")]),
        ({"remap_failed": False, "remapped_uncorrectable": 513}, [("fail", GPU, "replace")]),
        ({"repair_pending": True}, [("fail", GPU, "reset-gpu")]),
    ],
)
def test_row_remapping(facts, found):
    assert told("gpu-row-remap", node(**facts)) == found


@pytest.mark.parametrize(
    ("single", "double", "pending", "found"),
    [
        (62, 0, False, []),
        (62, 1, False, [("fail", GPU, "replace")]),
        (0, 1, True, [("fail", GPU, "reset-gpu")]),
        (None, None, True, [("fail", GPU, "reset-gpu")]),
    ],
)
def test_retired_pages(single, double, pending, found):
    facts = {"retired_pages_single_bit": single, "retired_pages_double_bit": double}
    assert told("gpu-retired-pages", node(retired_pages_pending=pending, **facts)) == found


@pytest.mark.parametrize("name", ["gpu-row-remap", "gpu-retired-pages", "gpu-recovery-action"])
def test_a_gpu_that_does_not_report_is_not_judged(name):
    assert outcome(name, node()).outcome is Ending.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("asked", "action"),
    [
        (1, "reset-gpu"),
        (2, "reboot"),
        (3, "drain"),
        (4, "reset-gpu"),
        (5, "reboot"),
        (6, "reset-gpu"),
        (7, "reboot"),
        (42, "drain"),
    ],
)
def test_the_drivers_recovery_action_is_passed_on(asked, action):
    assert told("gpu-recovery-action", node(recovery_action=asked)) == [("fail", GPU, action)]
    assert outcome("gpu-recovery-action", node(recovery_action=0)).outcome is Ending.PASSED


def test_one_reboot_for_all_gpus_is_one_finding():
    gpus = tuple(Gpu(i, f"0000:{i:02x}:00.0", recovery_action=2) for i in range(8))
    seen = told("gpu-recovery-action", Snapshot("n", 0.0, gpus=gpus))
    assert seen == [("fail", "node", "reboot")]
