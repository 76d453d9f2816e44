"""Every door is fed with garbage, and stays shut: no exception, no verdict, no drain."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent / "fuzz_doors"))
from all_doors import DOORS
from mutate import KINDS, PIECES, edited

FOUND = Path(__file__).parent / "found"
EDITS = st.lists(
    st.tuples(
        st.integers(0, KINDS - 1),
        st.integers(0, 1 << 14),
        st.integers(0, 512),
        st.integers(0, len(PIECES) * 4),
    ),
    max_size=5,
)
SMALL = settings(
    max_examples=120, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(DOORS))
def test_no_garbage_opens_a_door(name):
    """The same inputs at every run; `make fuzz` looks for new ones."""
    door = DOORS[name]
    seeds = list(door.seeds())

    @SMALL
    @example(which=0, edits=[], raw=None)
    @given(
        which=st.integers(0, len(seeds) - 1), edits=EDITS, raw=st.none() | st.binary(max_size=200)
    )
    def fed(which: int, edits: list, raw: bytes | None) -> None:
        data = raw if raw is not None else edited(seeds[which], edits, seeds, door.largest)
        door.feed(data)

    fed()


@pytest.mark.parametrize("name", sorted(DOORS))
def test_a_door_lets_its_real_inputs_in(name):
    for seed in DOORS[name].seeds():
        DOORS[name].feed(seed)


@pytest.mark.parametrize(
    "path", sorted(FOUND.glob("*/*")), ids=lambda p: f"{p.parent.name}-{p.name}"
)
def test_what_once_opened_a_door_no_longer_does(path):
    DOORS[path.parent.name].feed(path.read_bytes())
