"""kernel-modules."""

import pytest

from healthcheck.checks.kernel_modules import Limits, kernel_modules
from healthcheck.model import Finding, Severity, Snapshot


def judge(present: tuple[str, ...], *wanted: str) -> list[Finding]:
    return list(kernel_modules(Snapshot("n1", 0.0, modules=present), Limits(wanted)))


@pytest.mark.parametrize(
    "wanted",
    ["nvidia_peermem", "nvidia-peermem", "nv_peer_mem|nvidia_peermem", "a | nvidia-peermem"],
)
def test_a_module_by_any_of_its_names(wanted: str) -> None:
    assert judge(("nvidia", "nvidia_peermem"), wanted) == []


def test_a_missing_module_fails_with_all_its_names() -> None:
    (found,) = judge(("nvidia",), "nvidia", "nvidia_peermem|nv_peer_mem")
    assert (found.severity, found.subject) == (Severity.FAIL, "nvidia_peermem")
    assert "nvidia_peermem or nv_peer_mem" in found.message


@pytest.mark.parametrize("entry", ["", "a|", "|", " "])
def test_an_empty_name_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="expected a module name"):
        Limits((entry,))
