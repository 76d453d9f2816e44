"""The drill on a real Slurm cluster: a node is broken, Slurm's own hooks meet it, it is healed.

Each case has a node of its own, as many at a time as there are nodes. What counts is what Slurm
shows in the end: a node drained with our reason, or a job that ran.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from healthcheck.registry import STAGES
from slurm_integration.drill.model import Case, Played
from slurm_integration.drill.yard import Yard
from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.cluster import SandboxError
from slurm_integration.sandbox.faults.registry import Fault, find_fault, load_faults
from slurm_integration.sandbox.machine.types import NODE_TYPES

NODES = 8
USUAL = "h100-sxm"


def slurm_cases(
    types: Sequence[str], stages: Sequence[str], faults: Sequence[str], *, everything: bool = False
) -> list[Case]:
    """The named faults or all; or of each subject one that fails, one that warns, one to pass."""
    kind = types[0] if types else USUAL
    if len(types) > 1:
        raise SandboxError("a cluster has nodes of one type: expected one --type")
    named = [find_fault(name) for name in faults]
    if everything and not named:
        named = list(load_faults().values())
    found = []
    for stage in stages or STAGES:
        chosen = named or _sample(stage)
        found += [] if faults else [Case(kind, stage)]
        found += [
            Case(kind, stage, fault.name)
            for fault in chosen
            # Jobs here are given all GPUs of their node.
            if fault.applies_to(NODE_TYPES[kind]) and fault.owned is not False
        ]
    return found


def _sample(stage: str) -> list[Fault]:
    """Of each subject and verdict the first; beside the prolog, only what fails."""
    firsts: dict[tuple[str, str | None], Fault] = {}
    for fault in load_faults().values():
        severity = fault.severity.value if fault.severity else None
        if stage == "prolog" or severity == "fail":
            firsts.setdefault((fault.module, severity), fault)
    return list(firsts.values())


def play_on_slurm(wanted: Sequence[Case]) -> Iterator[Played]:
    """Play them on a cluster that is started for it and ended. Raises SandboxError."""
    if not wanted:
        return
    why = cluster.why_not()
    if why:
        raise SandboxError(why)
    state = tempfile.mkdtemp(prefix="fc-drill-", dir="/tmp")  # Slurm's sockets need it short
    yard = None
    try:
        Path(state).chmod(0o755)
        yard = Yard(Path(state), wanted[0].type, min(NODES, len(wanted)))
        for stage in STAGES:
            of_stage = [case for case in wanted if case.stage == stage]
            for first in range(0, len(of_stage), NODES):
                yield from yard.play(stage, of_stage[first : first + NODES])
    finally:
        if yard:
            yard.end()
        shutil.rmtree(state, ignore_errors=True)
