"""The nodes of a sandbox cluster: their machines, and how Slurm sees them."""

import os

import click

from slurm_integration.sandbox.cluster import ClusterSpec, ClusterStatus, SandboxError, up
from slurm_integration.sandbox.machine.files_system import settings_text
from slurm_integration.sandbox.machine.live import (
    MachineError,
    build_machine,
    has_baseline,
    machine_of,
    read_record,
    take_baseline,
)
from slurm_integration.sandbox.machine.types import NODE_TYPES

SETTINGS = "flightcheck.toml"
_POLICY = """# Written by `flightcheck sandbox up`; yours to change, it is kept.
dry_run = false

"""
_BUDGET = """
[drain]
max_nodes = 8
max_percent = 50
"""


def start_cluster(state: str, nodes: int, type_name: str) -> ClusterStatus:
    """Build the machines that are not there yet, and start Slurm on them.

    Raises SandboxError, MachineError, BuildError, OSError.
    """
    if type_name not in NODE_TYPES:
        raise MachineError(f"no node type {type_name!r}; there are {', '.join(sorted(NODE_TYPES))}")
    kind = NODE_TYPES[type_name]
    spec = ClusterSpec(
        state=state, nodes=nodes, gpus=kind.gpus, gpu_type=type_name.partition("-")[0]
    )
    for name in spec.names:
        build_node(root_of(state, name), type_name, name)
    _write_settings(state, spec)
    return up(spec)


def build_node(root: str, type_name: str, name: str) -> None:
    """A machine with a baseline; one that is there already stays as it is."""
    if not os.path.isdir(root) or not os.listdir(root):
        build_machine(root, type_name, name)
    elif (there := read_record(root).type) != type_name:
        raise MachineError(
            f"{root} holds a machine of type {there}, not {type_name}: end and remove that "
            "sandbox with `flightcheck sandbox down --remove`, or give another --dir"
        )
    if not has_baseline(root):
        take_baseline(root)


def root_of(state: str, node: str) -> str:
    """The folder of a node's machine. Raises click.UsageError for what is no node's name."""
    if not node.isalnum():
        raise click.UsageError(f"expected a node's name such as node02, found {node!r}")
    return f"{state}/nodes/{node}/root"


def _write_settings(state: str, spec: ClusterSpec) -> None:
    path = f"{state}/{SETTINGS}"
    if os.path.exists(path):
        return
    machine = machine_of(read_record(root_of(state, spec.names[0])))
    with open(path, "w") as file:
        file.write(_POLICY + settings_text(machine) + _BUDGET)


def table(state: str, now: ClusterStatus) -> str:
    """One line a node: Slurm's state, our faults, the reason of a drain."""
    if now.spec is None:
        return f"no sandbox in {state}; start one with `flightcheck sandbox up`"
    seen = {node.name: node for node in now.nodes}
    rows = [("NODE", "STATE", "FAULTS", "REASON")]
    for name in now.spec.names:
        node = seen.get(name)
        flags = "+".join([node.base, *sorted(node.flags)]) if node else "not running"
        rows.append((name, flags, _faults(state, name), (node.reason or "") if node else ""))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    lines = [line.rstrip() for line in lines]
    running = "" if now.running else " (not running)"
    return "\n".join([f"{state}: {len(now.spec.names)} nodes{running}", *lines])


def _faults(state: str, name: str) -> str:
    try:
        return ", ".join(read_record(root_of(state, name)).broken_by) or "-"
    except (MachineError, SandboxError):
        return "?"
