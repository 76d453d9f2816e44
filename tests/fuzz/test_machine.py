"""A whole node whose files, driver and memory answer nonsense, judged by the real prolog."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "fuzz_doors"))
from mutate import at_random

RUNS = 16
PLACES = ("sys", "proc", "dev/kmsg", "host.json", "var/lib/flightcheck")
DRIVER = "usr/lib/x86_64-linux-gnu/libnvidia-ml.state"


def files(root: Path) -> list[Path]:
    found = [p for place in PLACES for p in [root / place, *sorted((root / place).rglob("*"))]]
    return [p for p in found if p.is_file() and not p.is_symlink() and p.stat().st_size]


def fly(node, job) -> str:
    """The verdict that the prolog told. It says nothing on standard error and fails no job."""
    done = node.run("flightcheck-prolog", **job)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    words = [line.split() for line in done.stdout.splitlines() if " h100-sxm " in f"{line} "]
    told = done.stdout.split("flightcheck: ")[1].split()[0]
    assert told in ("go", "degraded", "no-go", "unknown"), done.stdout
    assert words or told == "unknown", done.stdout
    return told


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_node_with_some_damaged_files_is_judged_and_nothing_breaks(h100, job, seed):
    dice = random.Random(seed)
    for path in dice.sample(files(h100.root), 40):
        path.write_bytes(at_random(dice, [path.read_bytes()], 4096))
    fly(h100, job)


@pytest.mark.parametrize("junk", [b"\xff\x00\x1b[2J" * 20, b"9" * 400, b"-1\n", b"NaN\n"])
def test_a_node_that_answers_nothing_but_nonsense_is_never_go(h100, job, junk):
    for path in files(h100.root):
        path.write_bytes(junk)
    assert fly(h100, job) != "go"


@pytest.mark.parametrize("seed", range(RUNS // 2))
def test_a_driver_with_odd_texts_and_figures_breaks_nothing(h100, job, seed):
    """The simulated driver reads its answers from a file; one that it refuses is a dead driver."""
    dice = random.Random(seed)
    state = h100.root / DRIVER
    lines = state.read_bytes().split(b"\n")
    for at in dice.sample(range(1, len(lines)), 12):
        key, sep, value = lines[at].partition(b" ")
        lines[at] = key + sep + at_random(dice, [value, b"0", b"18446744073709551615"], 200)
    state.write_bytes(b"\n".join(line.replace(b"\n", b"") for line in lines))
    fly(h100, job)
