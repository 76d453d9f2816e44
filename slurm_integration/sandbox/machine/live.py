"""A machine's folder over its life: built, broken, healed.

The folder's `machine.json` records the type, the name and the faults in their order; the machine
is computed from it each time, so that healing restores exactly what was built.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from healthcheck.baseline import FILE
from healthcheck.config import STATE_DIR
from slurm_integration.sandbox.faults.registry import FaultError, Target, find_fault
from slurm_integration.sandbox.machine.describe import (
    FIRST_UPTIME_S,
    REBOOTED_UPTIME_S,
    describe,
)
from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.machine.files_gpu import LIBRARY_FOLDER
from slurm_integration.sandbox.machine.files_system import CONFIG
from slurm_integration.sandbox.machine.look import look
from slurm_integration.sandbox.machine.materialise import default_cache, write_machine
from slurm_integration.sandbox.machine.types import NODE_TYPES

RECORD = "machine.json"
STATE = STATE_DIR.lstrip("/")
Phase = Literal["before", "now"]


class MachineError(Exception):
    """A simulated machine can't be built or changed; the text says what to do."""


class Applied(msgspec.Struct, frozen=True):
    """A fault that the machine has: its name, where, when, and which of its two halves.

    `before` is what happened before the node's baseline was taken, `now` what happened after.
    """

    name: str
    index: int | None
    uptime_s: float
    phase: Phase

    @property
    def spelled(self) -> str:
        """As `sandbox break` takes it."""
        return self.name if self.index is None else f"{self.name}:{self.index}"


class Record(msgspec.Struct, frozen=True):
    """What a machine's folder is made from. `built_at` is the unix time of the last boot's end."""

    type: str
    node: str
    boots: int = 0
    built_at: float = 0.0
    faults: tuple[Applied, ...] = ()
    version: int = 1

    @property
    def broken_by(self) -> tuple[str, ...]:
        """The faults it has, each once."""
        return tuple(dict.fromkeys(applied.spelled for applied in self.faults))


def machine_of(record: Record) -> Machine:
    """The machine that a record stands for. Pure."""
    uptime = REBOOTED_UPTIME_S if record.boots else FIRST_UPTIME_S
    machine = describe(NODE_TYPES[record.type], record.node, record.boots, uptime)
    for applied in record.faults:
        fault = find_fault(applied.name)
        change = fault.before if applied.phase == "before" else fault.change
        machine = msgspec.structs.replace(machine, uptime_s=max(machine.uptime_s, applied.uptime_s))
        assert change is not None
        machine = change(machine, Target.of(machine, applied.index))
    return machine


def build_machine(root: str, type_name: str, node: str, *, cache: str | None = None) -> Record:
    """Build a healthy machine in a new or empty folder.

    Raises MachineError for an unknown type or a folder in use; OSError; nvml.build.BuildError.
    """
    if type_name not in NODE_TYPES:
        raise MachineError(f"no node type {type_name!r}; there are {', '.join(sorted(NODE_TYPES))}")
    os.makedirs(root, exist_ok=True)
    if os.listdir(root):
        raise MachineError(f"{root} is not empty: give a new folder, or remove this one")
    record = Record(type_name, node, built_at=time.time())
    write_machine(root, machine_of(record), None, cache or default_cache())
    os.makedirs(f"{root}/{STATE}", exist_ok=True)
    _save(root, record)
    return record


def break_machine(root: str, *faults: str) -> Record:
    """Give a living machine faults, such as `xid-79` or `xid-79:3`.

    What such a fault has of a past (an old error, say) happens first, and the node takes a new
    baseline after it, as it would have had. Raises MachineError or FaultError; then nothing has
    changed.
    """
    record = read_record(root)
    wanted = [_parse(fault) for fault in faults]
    for name, index in wanted:
        _check(record, name, index)
    past = [(name, index) for name, index in wanted if find_fault(name).before]
    for name, index in past:
        _change(root, name, index, "before")
    if past or not has_baseline(root):
        # Growth can only be seen by a node that has looked at itself before.
        forget_baseline(root)
        take_baseline(root)
    for name, index in wanted:
        record = _change(root, name, index, "now")
    return record


def _check(record: Record, name: str, index: int | None) -> None:
    """Raise FaultError where this machine can't have this fault."""
    declared, kind = find_fault(name), NODE_TYPES[record.type]
    if not declared.applies_to(kind):
        lacking = sorted(set(declared.needs) - kind.traits)
        why = f"has no {' and no '.join(lacking)}" if lacking else "expects nothing here"
        raise FaultError(f"{record.type} {why}: no fault {name!r} there")
    Target.of(machine_of(record), index)


def heal_machine(root: str) -> Record:
    """Mend everything: what is broken is replaced and the node boots afresh.

    All is as it was built, but for the boot: a new boot id, an empty error log, a short uptime.
    """
    with _locked(root):
        record = read_record(root)
        healed = msgspec.structs.replace(
            record, boots=machine_of(record).boots + 1, built_at=time.time(), faults=()
        )
        _show(root, record, healed)
    return healed


def show_record(root: str, record: Record) -> None:
    """Make the folder show another state of its machine: back in time, for a test.

    What the node remembers of itself is not touched.
    """
    with _locked(root):
        _show(root, read_record(root), record)


def _show(root: str, before: Record, after: Record) -> None:
    write_machine(root, machine_of(after), machine_of(before), default_cache())
    _save(root, after)


def read_record(root: str) -> Record:
    """What the folder is made from. Raises MachineError where it is no simulated machine."""
    path = f"{root}/{RECORD}"
    try:
        with open(path, "rb") as file:
            record = msgspec.json.decode(file.read(1 << 20), type=Record)
    except FileNotFoundError as error:
        raise MachineError(f"{root} holds no simulated machine (no {RECORD})") from error
    except (OSError, msgspec.MsgspecError) as error:
        raise MachineError(f"{path}: {error}; build the machine again") from error
    if record.version != 1 or record.type not in NODE_TYPES:
        raise MachineError(f"{path}: of another version of flightcheck; build the machine again")
    return record


def environment(root: str) -> dict[str, str]:
    """What a process needs in its environment to find itself on this machine."""
    return {
        "FLIGHTCHECK_ROOT": root,
        "FLIGHTCHECK_CONFIG": f"{root}/{CONFIG}",
        "LD_LIBRARY_PATH": f"{root}/{LIBRARY_FOLDER}",
    }


def has_baseline(root: str) -> bool:
    """Whether the node has looked at itself before."""
    return os.path.exists(f"{root}/{STATE}/{FILE}")


def forget_baseline(root: str) -> None:
    """Make the node forget everything it has seen."""
    try:
        os.unlink(f"{root}/{STATE}/{FILE}")
    except FileNotFoundError:
        pass


def take_baseline(root: str) -> None:
    """Let the node look at itself once, as its prolog would, and remember it."""
    look(root, machine_of(read_record(root)), "prolog")


def _parse(fault: str) -> tuple[str, int | None]:
    name, colon, number = fault.partition(":")
    if not colon:
        return name, None
    if not (number.isascii() and number.isdigit() and len(number) < 4):
        raise FaultError(f"{fault!r}: expected NAME or NAME:NUMBER, such as xid-79:3")
    return name, int(number)


def _change(root: str, name: str, index: int | None, phase: Phase) -> Record:
    with _locked(root):
        record = read_record(root)
        applied = Applied(name, index, _uptime(record), phase)
        broken = msgspec.structs.replace(record, faults=(*record.faults, applied))
        _show(root, record, broken)
    return broken


def _uptime(record: Record) -> float:
    """How long the machine has been up by now."""
    first = REBOOTED_UPTIME_S if record.boots else FIRST_UPTIME_S
    return round(first + max(0.0, time.time() - record.built_at), 3)


def _save(root: str, record: Record) -> None:
    draft = f"{root}/.{RECORD}.{os.getpid()}"
    with open(draft, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    os.replace(draft, f"{root}/{RECORD}")


@contextmanager
def _locked(root: str) -> Iterator[None]:
    """One change at a time."""
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(f"{root}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
