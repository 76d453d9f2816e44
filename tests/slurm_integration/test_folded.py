"""Folded node lists, taken apart as text."""

import pytest

from slurm_integration.folded import first, parts


@pytest.mark.parametrize(
    ("folded", "told", "host"),
    [
        ("gpu[01-04,09],login1", ["gpu[01-04,09]", "login1"], "gpu01"),
        ("a,b,c", ["a", "b", "c"], "a"),
        ("r[1-2]n[3,5]", ["r[1-2]n[3,5]"], "r1n3"),
        ("", [""], ""),
        ("a[1-", ["a[1-"], "a1"),
        ("a]b,c", ["a]b", "c"], "a]b"),
        ("[1,2],[3", ["[1,2]", "[3"], "1"),
        (",", ["", ""], ""),
    ],
)
def test_terms_and_the_first_host(folded, told, host):
    assert list(parts(folded)) == told
    assert first(folded) == host


def test_a_list_of_brackets_and_commas_alone_takes_no_longer_than_its_length():
    """Quadratic, a million of them would take minutes; the whole test has none."""
    for text in ("[" * 1_000_000, "," * 1_000_000, "[,]" * 300_000, "a[" + "," * 1_000_000):
        first(text)
        assert sum(len(part) for part in parts(text)) <= len(text)
