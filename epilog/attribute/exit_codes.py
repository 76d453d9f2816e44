"""What exit codes say where nothing else does. Most of them are consequences."""

from collections.abc import Sequence

import msgspec

from epilog.attribute.case import Case, Claim, Step, told
from epilog.attribute.places import short
from epilog.model import Evidence, Role, TaskExit

MOST_FIRST = 2
"""More tasks than this that die together were killed by somebody."""


ANY_ERROR = 1
"""What torchrun, srun and shells end with, whatever has happened below them."""


class Meaning(msgspec.Struct, frozen=True):
    """A class for an exit status, how far it can be trusted, and why."""

    klass: str
    confidence: float
    why: str


_SIGNALS = {
    4: Meaning("user/segfault", 0.9, "illegal instruction"),
    7: Meaning("infrastructure/shm", 0.6, "SIGBUS, nearly always shared memory that is full"),
    8: Meaning("user/segfault", 0.9, "arithmetic fault"),
    9: Meaning("unknown/sigkill", 1.0, "killed, and nothing says by whom"),
    11: Meaning("user/segfault", 1.0, "segmentation fault"),
    125: Meaning("user/host-oom", 0.9, "Slurm's own code for out of memory (0:125)"),
}
_CONSEQUENCES = {6: "abort, usually the watchdog's", 15: "terminated"}
_CODES = {
    1: Meaning("user/python-exception", 0.6, "exit code 1, an exception whose words are not here"),
    2: Meaning("user/config", 0.6, "exit code 2, wrong usage"),
    126: Meaning("infrastructure/environment", 0.8, "exit code 126, not executable"),
    127: Meaning("infrastructure/environment", 0.9, "exit code 127, command not found"),
    253: Meaning("user/host-oom", 0.8, "Slurm's exit code for out of memory (253)"),
}


def meaning(code: int | None, signal: int | None) -> Meaning | None:
    """What `code:signal` says; 128+N is signal N as shells report it. None: a consequence."""
    if not signal and code is not None and 128 < code < 160:
        signal = code - 128
    if signal:
        return _SIGNALS.get(signal)
    return _CODES.get(code) if code else None


def recorded(exits: Sequence[TaskExit]) -> list[Evidence]:
    """What the task-exit record itself proves: who was the first to die of a signal of its own."""
    bad = [(x, m) for x in exits if x.fact and x.signal and (m := meaning(None, x.signal))]
    if not bad:
        return []
    first = _first(bad)
    if len(first) > MOST_FIRST:
        return []
    return [
        Evidence(
            file="task-exit record",
            line=0,
            role=Role.ROOT,
            klass=m.klass,
            text=f"rank {x.rank} ended by signal {x.signal}: {m.why}",
            signature="task-exit",
            rank=x.rank,
            host=x.node,
            at=x.at,
            fields={"exitcode": str(-(x.signal or 0))},
        )
        for x, m in first
    ]


def step(case: Case) -> Step:
    """The first task that ended badly by itself, else the job's own exit code."""
    bad = [(x, m) for x in case.exits if (m := meaning(x.exit_code, x.signal)) is not None]
    if bad:
        first = _first(bad)
        m = first[0][1]
        ranks = tuple(sorted({x.rank for x, _ in first if x.rank is not None}))
        nodes = tuple(dict.fromkeys(short(x.node) for x, _ in first if x.node))
        why = f"{told(ranks) if ranks else 'a task'} ended first: {m.why}"
        if len(bad) > len(first):
            why += f" ({len(bad) - len(first)} others after it)"
        if len(ranks) > 8:
            ranks = ()
        return Step(why, Claim(m.klass, why, ranks=ranks, nodes=nodes, confidence=m.confidence))
    facts, symptoms = case.facts, case.of(Role.SYMPTOM)
    for code, signal in ((facts.exit_code, facts.exit_signal), (facts.derived_exit_code, None)):
        m = meaning(code, signal)
        if code == ANY_ERROR and any(e.klass.startswith("unknown/") for e in symptoms):
            return Step("the job's exit code 1 only says that it failed: its symptoms tell more")
        if m is not None:
            why = f"the job's exit code: {m.why}"
            return Step(why, Claim(m.klass, why, confidence=m.confidence))
    words = _CONSEQUENCES.get(facts.exit_signal or 0)
    return Step(f"exit code: {words}, a consequence" if words else "the exit code tells nothing")


def _first(bad: list[tuple[TaskExit, Meaning]]) -> list[tuple[TaskExit, Meaning]]:
    """Those that ended first, as far as times are known; of the same meaning."""
    times = [x.at for x, _ in bad]
    if None not in times and times:
        begin = min(t for t in times if t is not None)
        bad = [pair for pair in bad if pair[0].at is not None and pair[0].at <= begin + 0.5]
    bad = sorted(bad, key=lambda pair: -pair[1].confidence)
    return [pair for pair in bad if pair[1].klass == bad[0][1].klass]
