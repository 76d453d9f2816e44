"""memory-size and memory-errors."""

import pytest

from healthcheck.checks.memory import ErrorLimits, SizeLimits, memory_errors, memory_size
from healthcheck.model import (
    Action,
    Baseline,
    Counter,
    Finding,
    Memory,
    MemoryController,
    NotApplicable,
    Severity,
    Snapshot,
)
from healthcheck.model import Unmeasured as UnmeasuredError
from healthcheck.model.machine import MemoryModule

GIB = 1 << 30
KIB = 1024


def size(total_bytes: float, installed_gib: float) -> list[Finding]:
    node = Snapshot("n1", 0.0, memory=Memory(int(total_bytes)))
    return list(memory_size(node, SizeLimits(installed_gib)))


@pytest.mark.parametrize(
    ("mem_total_kib", "installed_gib"),
    [(2113407600, 2048), (1056270920, 1024), (65699788, 64), (16265352, 16)],
)
def test_what_kernels_report_of_whole_memory_passes(mem_total_kib: int, installed_gib: int) -> None:
    assert size(mem_total_kib * KIB, installed_gib) == []


@pytest.mark.parametrize(
    ("installed_gib", "module_gib"), [(2048, 64), (2048, 128), (1024, 32), (512, 32)]
)
def test_one_missing_module_fails(installed_gib: int, module_gib: int) -> None:
    (found,) = size((installed_gib - module_gib) * 0.984 * GIB, installed_gib)
    assert (found.severity, found.action, found.limit) == (
        Severity.FAIL,
        Action.DRAIN,
        "min_gib",
    )
    assert f"{installed_gib} GiB installed" in found.message


def errors(
    controller: MemoryController, *, was: dict[str, int] | None, hours: float = 1.0, **limits: float
) -> list[Finding]:
    counters = {f"mc0|{name}": Counter(value, 0.0) for name, value in (was or {}).items()}
    baseline = Baseline(boot_id="b", counters=counters) if was is not None else None
    node = Snapshot(
        "n1",
        hours * 3600,
        boot_id="b",
        baseline=baseline,
        memory_controllers=(controller,),
    )
    return list(memory_errors(node, ErrorLimits(**limits)))


def test_old_errors_judge_nothing() -> None:
    controller = MemoryController("mc0", 5000, 3)
    assert errors(controller, was={"corrected": 5000, "uncorrected": 3}) == []
    assert errors(controller, was=None) == []
    assert errors(controller, was={}) == []


def test_a_new_uncorrected_error_fails_and_names_the_module() -> None:
    controller = MemoryController(
        "mc0", 0, 4, (MemoryModule("DIMM_A1", 0, 3), MemoryModule("DIMM_B1", 9, 1))
    )
    (found,) = errors(controller, was={"corrected": 0, "uncorrected": 3})
    assert (found.severity, found.action, found.measured) == (Severity.FAIL, Action.REPLACE, 1)
    assert "DIMM_A1 (3), DIMM_B1 (1)" in found.message


@pytest.mark.parametrize(("grown", "hours", "warned"), [(10, 1, 0), (11, 1, 1), (11, 0.1, 1),
                                                        (200, 24, 0), (300, 24, 1)])  # fmt: skip
def test_corrected_errors_warn_by_rate(grown: int, hours: float, warned: int) -> None:
    findings = errors(MemoryController("mc0", 100 + grown, 0), was={"corrected": 100}, hours=hours)
    assert [f.severity for f in findings] == [Severity.WARN] * warned


def test_without_edac_nothing_is_counted() -> None:
    node = Snapshot("n1", 0.0, memory_controllers=())
    with pytest.raises(NotApplicable):
        list(memory_errors(node, ErrorLimits()))
    with pytest.raises(UnmeasuredError):
        list(memory_errors(node, ErrorLimits(required=True)))


def test_unreadable_counters_are_unmeasured() -> None:
    with pytest.raises(UnmeasuredError, match="cannot be read"):
        errors(MemoryController("mc0"), was={})
