import pytest
from hypothesis import given
from hypothesis import strategies as st

from epilog.signatures.literals import required_literals


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("Got async event : port error", ("Got async event : port error",)),
        (r"rank (?P<r>\d+) failed badly", (" failed badly",)),
        (r"execve\(\): no", ("execve(): no",)),
        (r"abcdefgh?ijk", ("abcdefg",)),
        (r"abcdefg(?:xyz|uvw){2}hi", ("abcdefg",)),
        (r"first thing|second thing", ("first thing", "second thing")),
        (r"a[bc|d]efghijk", ("efghijk",)),
        (r"a[]x]longer text\.", ("longer text.",)),
        (r"abcdef{2}ghijkl", ("ghijkl",)),
        (r"(?:all in a group)", None),
        (r"long enough|sh", None),
        (r"\d+\s+\w+", None),
    ],
)
def test_the_longest_text_that_a_match_must_hold(pattern, literals):
    assert required_literals(pattern) == literals


@given(st.text(alphabet="ab|()[]\\*+?{}.^$d,1", max_size=30))
def test_no_pattern_makes_it_crash(pattern):
    required_literals(pattern)
