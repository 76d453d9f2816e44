"""What every check of the host promises to `explain` and to the profiles."""

import msgspec
import pytest

from healthcheck.registry import limits_of, load_checks

NAMES = (
    "power-supplies", "memory-size", "memory-errors", "filesystem-space", "mounts", "services",
    "clock", "kernel-modules", "processes",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_check_explains_itself(name: str) -> None:
    declared = load_checks()[0][name]
    first, _, rest = declared.doc.partition("\n")
    assert first.endswith(".")
    for part in ("What it means: ", "What we do: ", "What to do: "):
        assert f"\n    {part}" in f"\n{rest}" or f"\n{part}" in f"\n{rest}"
    assert declared.source


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"memory-size", "kernel-modules"}))
def test_a_mistyped_limit_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="no_such_limit"):
        limits_of(load_checks()[0][name], {"no_such_limit": 1})


def test_only_what_a_profile_must_set_needs_one() -> None:
    needing = {name for name in NAMES if load_checks()[0][name].needs_profile()}
    assert needing == {"memory-size", "kernel-modules"}


def test_the_clock_and_the_process_table_are_not_for_the_prolog() -> None:
    without = {name for name in NAMES if "prolog" not in load_checks()[0][name].stages}
    assert without == {"clock", "processes"}
