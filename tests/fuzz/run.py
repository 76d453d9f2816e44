"""The long run: `make fuzz`, or `python tests/fuzz/run.py --seconds 600 [DOOR…]`.

Each door gets its share of the time in a process of its own, guided by coverage where atheris is
installed, by chance where not. What opens a door is kept below `.fuzz/DOOR/` and its path printed;
moved to `tests/fuzz/found/DOOR/`, it is a test from then on.
"""

import argparse
import hashlib
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = ROOT / ".fuzz"
sys.path.insert(0, str(HERE / "fuzz_doors"))

MEMORY_MIB = 2048
INPUT_S = 10
"""An input that takes longer is a find: a door answers in bounded time."""
PACKAGES = ["healthcheck", "prolog", "epilog", "slurm_integration"]


def main() -> int:
    """Exit code 1 where something was found."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=600, help="for all doors together")
    arguments.add_argument("--one", metavar="DOOR", help=argparse.SUPPRESS)
    arguments.add_argument("doors", nargs="*", metavar="DOOR")
    asked = arguments.parse_args()
    if asked.one:
        return one(asked.one, asked.seconds)
    names = asked.doors or listed()
    share = max(2, asked.seconds // len(names))
    guide = "coverage (atheris)" if guided() else "chance; pip install atheris for coverage"
    print(f"{len(names)} doors, {share} s each, guided by {guide}", flush=True)
    bad = [name for name in names if not fuzzed(name, share)]
    print(f"found in: {', '.join(bad)}" if bad else "nothing found")
    return 1 if bad else 0


def listed() -> list[str]:
    """The names of all doors."""
    from all_doors import DOORS

    return sorted(DOORS)


def guided() -> bool:
    """Whether atheris is here."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def fuzzed(name: str, seconds: int) -> bool:
    """Fuzz one door in a child; whether it stayed shut."""
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    # The program's own finds only: the next run begins with what this one has learnt.
    argv = [sys.executable, __file__, "--one", name, "--seconds", str(seconds)]
    began = time.monotonic()
    with open(folder / "log.txt", "wb") as log:
        code = subprocess.run(
            argv, cwd=ROOT, stdout=log, stderr=log, timeout=seconds * 3 + 120, check=False
        ).returncode
    took = time.monotonic() - began
    told = (folder / "log.txt").read_text(errors="replace").splitlines()
    count = next((line for line in reversed(told) if "runs" in line or "inputs" in line), "")
    print(f"{name}: {'ok' if code == 0 else f'FOUND (code {code})'} in {took:.0f} s {count[:80]}",
          flush=True)  # fmt: skip
    if code:
        print("\n".join(f"    {line[:200]}" for line in told[-25:]), flush=True)
    return code == 0


def one(name: str, seconds: int) -> int:
    """In the child."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return with_coverage(name, seconds) if guided() else by_chance(name, seconds)


def with_coverage(name: str, seconds: int) -> int:
    """libFuzzer drives; what it learns stays in `.fuzz/DOOR/corpus`."""
    import atheris

    with atheris.instrument_imports(include=PACKAGES):
        from all_doors import DOORS
    from mutate import at_random

    door = DOORS[name]
    seeds = list(door.seeds())
    corpus = KEPT / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)

    def mutated(data: bytes, most: int, chance: int) -> bytes:
        dice = random.Random(chance)
        if dice.random() < 0.5:
            return atheris.Mutate(data, most)
        return at_random(dice, [data, *seeds[:8]], most)

    atheris.Setup(
        [sys.argv[0], str(corpus), f"-max_total_time={seconds}", f"-max_len={door.largest}",
         f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MIB}", "-print_final_stats=1",
         f"-artifact_prefix={KEPT / name}/", "-verbosity=1", "-close_fd_mask=0"],
        door.feed, custom_mutator=mutated,
    )  # fmt: skip
    atheris.Fuzz()
    return 0


def by_chance(name: str, seconds: int) -> int:
    """Real inputs, changed at random."""
    from all_doors import DOORS
    from mutate import at_random

    door = DOORS[name]
    seeds = list(door.seeds())
    dice = random.Random()
    until = time.monotonic() + seconds
    count = 0
    while time.monotonic() < until:
        data = at_random(dice, seeds, door.largest)
        count += 1
        began = time.process_time()
        try:
            door.feed(data)
            if time.process_time() - began > INPUT_S:
                raise AssertionError(f"took {time.process_time() - began:.1f} s")
        except BaseException:
            traceback.print_exc()
            path = KEPT / name / f"crash-{hashlib.sha256(data).hexdigest()[:16]}"
            path.write_bytes(data)
            print(f"kept as {path}")
            return 1
    print(f"{count} inputs")
    return 0


if __name__ == "__main__":
    os.nice(5)
    sys.exit(main())
