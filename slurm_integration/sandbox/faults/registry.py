"""The faults that exist: declared by a decorator, found by listing this directory.

A fault is a pure function from a machine to a sicker one. It declares what flightcheck must say
about it, and a test runs every fault through the real probes and checks. Dropping a file into
this folder is all it takes to add some.
"""

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NamedTuple

import msgspec

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.machine.types import NODE_TYPES, NodeType


class FaultError(Exception):
    """There is no such fault, or not on this machine; the text says what there is."""


class Target(NamedTuple):
    """Which GPU, adapter, power supply … of a machine a fault hits: its place among its kind."""

    gpu: int
    hca: int

    @classmethod
    def of(cls, machine: Machine, index: int | None) -> "Target":
        """The one asked for, or one in the middle. Raises FaultError where there is none such."""
        gpus = len(machine.nvml.gpus) if machine.nvml else 0
        hcas = len(machine.hcas)
        if index is not None and index >= max(gpus, hcas):
            raise FaultError(
                f"no number {index} on this machine: it has {gpus} GPUs and {hcas} adapters, "
                "counted from 0"
            )
        gpu = gpus // 2 if index is None else index
        hca = hcas // 2 if index is None else index
        return cls(min(gpu, max(gpus - 1, 0)), min(hca, max(hcas - 1, 0)))


Change = Callable[[Machine, Target], Machine]


class Fault(msgspec.Struct, frozen=True):
    """A declared fault and what must be found.

    `check` None: nothing may be found, the case must pass. `also`: the checks that find it too,
    since it legitimately shows there; no other may. `before` happens before the node's baseline,
    `change` after it. `needs` are traits of the node type; the profiles of `not_on` set no figure
    that the fault could break. `told` must stand in the finding's message.
    `stage` is where it shows. `owned`: whether the job that is about to start was given the GPU
    (None: it shows without a job too). `blind`: the check can't judge at all, and the verdict is
    unknown. `silent`: NVML gives no facts, so what other checks need is unmeasured.
    """

    name: str
    text: str
    check: str | None
    severity: Severity | None
    action: Action
    also: tuple[str, ...]
    needs: tuple[str, ...]
    not_on: tuple[str, ...]
    told: str | None
    stage: str
    owned: bool | None
    blind: bool
    silent: bool
    module: str
    change: Change
    before: Change | None = None

    def applies_to(self, kind: NodeType) -> bool:
        """Whether a node of this type can have it."""
        return kind.traits.issuperset(self.needs) and kind.name not in self.not_on

    @property
    def types(self) -> tuple[str, ...]:
        """The node types that can have it."""
        return tuple(name for name, kind in NODE_TYPES.items() if self.applies_to(kind))


_faults: dict[str, Fault] = {}


def fault(
    name: str,
    check: str | None,
    severity: Severity | None = Severity.FAIL,
    action: Action = Action.NONE,
    *,
    also: Iterable[str] = (),
    needs: Iterable[str] = ("gpu",),
    not_on: Iterable[str] = (),
    told: str | None = None,
    stage: str = "prolog",
    owned: bool | None = None,
    blind: bool = False,
    silent: bool = False,
    past: Change | None = None,
) -> Callable[[Change], Change]:
    """Declare a fault; its docstring's first line describes it.

    `past` is what happened to the machine before its baseline; for the rest see `Fault`.
    """

    def declare(change: Change) -> Change:
        if name in _faults and _faults[name].module != change.__module__:
            raise FaultError(f"fault {name!r} is declared twice")
        _faults[name] = Fault(
            name=name,
            text=(change.__doc__ or "").strip().splitlines()[0],
            check=check,
            severity=severity if check and not blind else None,
            action=action,
            also=tuple(also),
            needs=tuple(needs),
            not_on=tuple(not_on),
            told=told,
            stage=stage,
            owned=owned,
            blind=blind,
            silent=silent,
            module=change.__module__,
            change=change,
            before=past,
        )
        return change

    return declare


def must_pass(
    name: str,
    *,
    needs: Iterable[str] = ("gpu",),
    owned: bool | None = None,
    past: Change | None = None,
) -> Callable[[Change], Change]:
    """Declare a change that looks like a fault and is none: the verdict stays go."""
    return fault(name, None, None, needs=needs, owned=owned, past=past)


def unchanged(machine: Machine, _: Target) -> Machine:
    """Nothing: for faults whose only half is their past."""
    return machine


def load_faults() -> dict[str, Fault]:
    """All faults by name."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for entry in sorted(os.listdir(folder)):
        if entry.endswith(".py") and entry not in ("__init__.py", "registry.py", "edit.py"):
            import_module(f"slurm_integration.sandbox.faults.{entry[:-3]}")
    return dict(sorted(_faults.items()))


def find_fault(name: str) -> Fault:
    """The fault of this name. Raises FaultError that names close ones."""
    faults = load_faults()
    if name not in faults:
        import difflib

        close = difflib.get_close_matches(name, faults, 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise FaultError(f"no fault {name!r}{hint} (`flightcheck sandbox faults` lists them)")
    return faults[name]
