"""The list of faults, for people and for programs."""

import msgspec

from slurm_integration.sandbox.faults.registry import Fault, load_faults
from slurm_integration.sandbox.machine.live import MachineError
from slurm_integration.sandbox.machine.types import NODE_TYPES


class Row(msgspec.Struct, frozen=True):
    """One fault as `flightcheck sandbox faults --json` gives it.

    `check` None: the node must pass. `history`: the fault has a part from before the baseline.
    """

    name: str
    description: str
    check: str | None
    severity: str | None
    action: str
    verdict: str
    stage: str
    history: bool
    types: tuple[str, ...]
    also: tuple[str, ...]


def rows(type_name: str | None = None) -> list[Row]:
    """All faults, or those of one node type, by name. Raises MachineError for an unknown type."""
    if type_name is not None and type_name not in NODE_TYPES:
        raise MachineError(f"no node type {type_name!r}; there are {', '.join(sorted(NODE_TYPES))}")
    return [
        Row(
            name=fault.name,
            description=fault.text,
            check=fault.check,
            severity=fault.severity.value if fault.severity else None,
            action=fault.action.value,
            verdict=verdict(fault),
            stage=fault.stage,
            history=fault.before is not None,
            types=fault.types,
            also=fault.also,
        )
        for fault in load_faults().values()
        if type_name is None or type_name in fault.types
    ]


def verdict(fault: Fault) -> str:
    """What a node with this fault alone must be judged."""
    if fault.blind:
        return "unknown"
    if fault.severity is None:
        return "go"
    return {"fail": "no-go", "warn": "degraded"}.get(fault.severity.value, "go")


def expectation(fault: Fault) -> str:
    """In words, for whoever just broke a node."""
    if fault.check is None:
        return "nothing, the node must pass"
    stage = "" if fault.stage == "prolog" else f" (at stage {fault.stage}, not in the prolog)"
    return f"{fault.check}: verdict {verdict(fault)}, action {fault.action.value}{stage}"


def as_table(chosen: list[Row]) -> str:
    """Columns, grouped by verdict: what stops a node first, what must pass last."""
    order = ("no-go", "degraded", "unknown", "go")
    lines = []
    name = max((len(row.name) for row in chosen), default=0)
    check = max((len(row.check or "") for row in chosen), default=0)
    for kind in order:
        group = [row for row in chosen if row.verdict == kind]
        if not group:
            continue
        title = "must pass" if kind == "go" else kind
        lines += [f"{title} ({len(group)})", ""]
        for row in group:
            found = f"{row.check or '':<{check}}  {row.action if row.check else '':<11}"
            lines.append(f"  {row.name:<{name}}  {found}  {row.description}")
        lines.append("")
    return "\n".join([*lines, f"{len(chosen)} faults"])


def to_json(chosen: list[Row]) -> str:
    """A JSON list."""
    return msgspec.json.format(msgspec.json.encode(chosen), indent=1).decode()
