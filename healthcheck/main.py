"""The entry point of `flightcheck`: starts what takes longest, then loads the command line.

Reading NVML and importing click take about as long, and a node has more than one core. For a
`check` of this node the reading begins while click is imported; whatever the command line turns
out to say, a reading that nobody takes is ended.
"""

import gc
import os
import sys
from collections.abc import Mapping, Sequence

from healthcheck.host import host_at
from healthcheck.reading import Plan, Reading, launch

NOT_HERE = ("--replay", "--help", "-h")
"""Options of a check that does not look at this node."""
STAGES = ("prolog", "epilog", "health", "sweep")

_early: list[tuple[str, str, Reading]] = []


def main() -> None:
    """Run the command line and exit."""
    # Importing allocates much and frees little: collecting on the way costs a short command more
    # than it gains. Long ones still collect, only less often.
    gc.set_threshold(50_000, 20, 20)
    wanted = expected(sys.argv[1:], os.environ)
    if wanted is not None:
        root, stage = wanted
        _early.append((root, stage, launch("nvml", host_at(root), Plan(stage=stage))))
    from healthcheck.cli import main as command_line

    try:
        command_line()
    except SystemExit as leaving:
        if wanted is not None:
            _leave(leaving.code)
        raise
    finally:
        for _, _, reading in _early:
            reading.abandon()


def _leave(code: object) -> None:
    """End a look at once: taking the interpreter apart takes longer than judging the node did."""
    for _, _, reading in _early:
        reading.abandon()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # a closed pipe: let the interpreter say so in its own way
    os._exit(code if isinstance(code, int) else 0)


def expected(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str] | None:
    """(root, stage) of the look that this command line is about to take; None where it is none.

    A guess that costs a fork where it is wrong; click alone decides what the words mean.
    """
    if argv[:1] != ["check"] or any(a.partition("=")[0] in NOT_HERE for a in argv):
        return None
    root = _value(argv, "--root") or environment.get("FLIGHTCHECK_ROOT", "")
    stage = _value(argv, "--stage") or "sweep"
    return (root, stage) if stage in STAGES else None


def _value(argv: Sequence[str], option: str) -> str | None:
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(argv[position + 1 : position + 2]), None)
    return None


def take_early(root: str | None, stage: str) -> list[Reading]:
    """The reading that was started for this look, if one was; the caller has to collect it."""
    taken = [reading for at, of, reading in _early if (at, of) == (root or "", stage)]
    _early[:] = [one for one in _early if one[2] not in taken]
    return taken
