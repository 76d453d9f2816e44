"""A profile out of one known-good node: what the snapshot shows is what its like must have.

Pure. What cannot be learned is left out and named, so that a reader knows what the profile does
not expect.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from healthcheck.learn_rules import RULES, Unclear, real
from healthcheck.model import Snapshot
from healthcheck.profile_file import Figure, Match, Profile

Values = dict[str, dict[str, Any]]


def learn(node: Snapshot, name: str) -> tuple[Profile, list[str]]:
    """The profile NAME that this node fits exactly, and what could not be learned of it."""
    day = datetime.fromtimestamp(node.taken_at, UTC).date()
    source = f"learned from {node.node} on {day}"
    values: Values = {}
    left_out: list[str] = []
    for check, field, rule in RULES:
        try:
            value = rule(node)
        except Unclear as why:
            left_out.append(f"{check} {field}: {why}")
            continue
        if value is not None:
            values.setdefault(check, {})[field] = value
    if not {"warn_c", "fail_c"} <= values.get("gpu-temperature", {}).keys():
        values.pop("gpu-temperature", None)
    if not {"active", "rate_gb_s", "link_layer"} <= values.get("ib-ports", {}).keys():
        values.pop("ib-ports", None)
    ids = sorted({device.device for device in real(node, "gpu")})
    model = _model(node, ids)
    return (
        Profile(
            name=name,
            title=f"{model}, as {node.node} was on {day}",
            match=Match(tuple(ids), len(real(node, "gpu")) or None),
            mounts=_mounts(node),
            services=_services(node),
            checks={
                check: {field: Figure(value, source) for field, value in fields.items()}
                for check, fields in values.items()
            },
        ),
        left_out,
    )


def _model(node: Snapshot, ids: list[str]) -> str:
    names = Counter(gpu.name for gpu in node.gpus or () if gpu.name)
    if names:
        return ", ".join(f"{count} × {name}" for name, count in sorted(names.items()))
    return f"GPUs {', '.join(ids)}" if ids else "A node without GPUs"


def _mounts(node: Snapshot) -> tuple[str, ...]:
    return tuple(found.path for found in node.filesystems or () if found.state == "ok")


def _services(node: Snapshot) -> tuple[str, ...]:
    return tuple(name for name, state in (node.services or {}).items() if state == "active")


def rules() -> Iterator[tuple[str, str]]:
    """(check, field) of everything that can be learned."""
    return ((check, field) for check, field, _ in RULES)
