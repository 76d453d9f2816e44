"""Which nodes, by which way, with which checks. Pure."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from slurm_integration.node_state import BASES, NodeState
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.slurm import Known, state_text
from slurm_integration.sweep.transports.base import Target

BUSY_STAGE = "health"
"""The checks made to run beside a job: those of Slurm's HealthCheckProgram."""
_FLAGS = ("COMPLETING", "DRAIN", "FAIL", "MAINTENANCE", "RESERVED", "PLANNED", "NOT_RESPONDING",
          "POWERED_DOWN", "CLOUD", "INVALID_REG", "BLOCKED")  # fmt: skip
_SHORT = {"ALLOC": "ALLOCATED", "MIX": "MIXED", "COMP": "COMPLETING", "MAINT": "MAINTENANCE",
          "RESV": "RESERVED", "UNK": "UNKNOWN"}  # fmt: skip


class Routes(msgspec.Struct, frozen=True):
    """Targets by transport; `refused` are those the asked-for transport can't reach, and why."""

    ways: dict[str, tuple[Target, ...]] = {}
    refused: tuple[tuple[Target, str], ...] = ()


def is_busy(node: NodeState) -> bool:
    """Whether a job is on it, or still on its way out."""
    return node.base in ("ALLOCATED", "MIXED") or "COMPLETING" in node.flags


_WORDS: dict[str, Callable[[NodeState], bool]] = {
    "drained": lambda node: node.drained,
    "draining": lambda node: node.draining,
    "held": lambda node: node.held,
    "ours": lambda node: node.ours,
    "busy": is_busy,
}


def why_not_srun(node: NodeState | None) -> str:
    """Why Slurm can't give us this node now; "" where it can."""
    if node is None:
        return "Slurm knows no node of this name"
    if is_busy(node):
        return "busy with a job"
    if node.held:
        return f"{state_text(node)}: {node.reason or 'no reason given'}"
    if node.base != "IDLE" or node.flags or node.suffix:
        # Planned, reserved, powered down, rebooting, not responding: srun would wait or wake it.
        return f"its state is {state_text(node)}"
    return "" if node.partitions else "it is in no partition"


def select_nodes(known: Known, partition: str, state: str) -> list[str]:
    """Slurm's nodes in these partitions and states (comma lists; "" for all).

    Raises SweepError for a word that is no state, and where nothing is selected.
    """
    wanted = [word for word in partition.split(",") if word]
    there = {name for node in known.nodes.values() for name in node.partitions}
    for word in wanted:
        if word not in there:
            raise SweepError(f"-p {word}: no such partition; there are {', '.join(sorted(there))}")
    tests = [_state_test(word) for word in state.split(",") if word]
    found = [
        name
        for name, node in known.nodes.items()
        if node.base != "FUTURE"
        and (not wanted or not set(wanted).isdisjoint(node.partitions))
        and (not tests or any(test(node) for test in tests))
    ]
    if not found:
        raise SweepError(
            f"no node of {len(known.nodes)} is in "
            f"{f'partition {partition}' if partition else 'the cluster'}"
            f"{f' and in state {state}' if state else ''}"
        )
    return found


def _state_test(word: str) -> Callable[[NodeState], bool]:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    name = _SHORT.get(word.upper(), word.upper())
    if name in BASES:
        return lambda node: node.base == name
    if name in _FLAGS:
        return lambda node: name in node.flags
    words = sorted([*_WORDS, *(base.lower() for base in BASES), *(f.lower() for f in _FLAGS)])
    raise SweepError(f"--state {word}: expected one of {', '.join(words)}")


def make_targets(names: Iterable[str], known: Known | None, stage: str) -> list[Target]:
    """The targets; a busy node is only given checks that run beside a job."""
    targets = []
    for name in names:
        node = known.nodes.get(name) if known else None
        if node is None or known is None:
            targets.append(Target(name, stage=stage))
            continue
        cheap = is_busy(node) and stage == "sweep"
        targets.append(
            Target(
                name,
                state_text(node),
                BUSY_STAGE if cheap else stage,
                node.partitions,
                known.gpus.get(name, 0),
                known.hosts.get(name, ""),
            )
        )
    return targets


def route(targets: Sequence[Target], known: Known | None, via: str) -> Routes:
    """Split by way: `auto` gives srun what Slurm can allocate, and ssh the rest."""
    if via in ("ssh", "local"):
        return Routes({via: tuple(targets)})
    ways: dict[str, list[Target]] = {}
    refused = []
    for target in targets:
        why = why_not_srun(known.nodes.get(target.node) if known else None)
        if not why:
            ways.setdefault("srun", []).append(target)
        elif via == "auto":
            ways.setdefault("ssh", []).append(target)
        else:
            refused.append((target, why))
    return Routes({way: tuple(found) for way, found in ways.items()}, tuple(refused))
