"""A whole rack or leaf switch that fails alike is one finding about that. Pure."""

from collections.abc import Iterator, Sequence

from healthcheck.model import Severity
from slurm_integration.sweep.compare.topology import Switch, Topology
from slurm_integration.sweep.model import Answer, FleetFinding, NodeResult

MIN_NODES = 3
"""Two nodes of a rack that fail alike are a coincidence too often."""
MIN_SHARE = 0.8
"""Of the nodes below it that were asked."""
MAX_OUTSIDE = 0.5
"""Where it is half as common elsewhere, the rack is not what they share."""


def common_causes(results: Sequence[NodeResult], topology: Topology) -> list[FleetFinding]:
    """One finding for each switch, rack or node set whose nodes share a failure."""
    names = frozenset(result.node for result in results)
    affected = _signatures(results)
    fleet = Switch("", "fleet", names)
    found: dict[Switch, list[tuple[str, frozenset[str]]]] = {}
    for signature, nodes in affected.items():
        for switch in _widest([fleet, *topology.groups(names)], nodes, names):
            found.setdefault(switch, []).append((signature, nodes & switch.nodes))
    return [_finding(switch, told) for switch, told in found.items()]


def _signatures(results: Sequence[NodeResult]) -> dict[str, frozenset[str]]:
    """What can be shared: a failing check, a warning one, or no report for the same reason."""
    found: dict[str, set[str]] = {}
    for result in results:
        if result.answer is not Answer.REPORTED:
            found.setdefault(result.answer.value, set()).add(result.node)
            continue
        for check, finding in result.findings():
            if finding["severity"] in ("fail", "warn"):
                found.setdefault(f"{finding['severity']} {check}", set()).add(result.node)
    return {name: frozenset(nodes) for name, nodes in found.items()}


def _widest(
    switches: Sequence[Switch], nodes: frozenset[str], everyone: frozenset[str]
) -> Iterator[Switch]:
    """The widest switches that explain these nodes; `switches` come widest first."""
    explained: frozenset[str] = frozenset()
    for switch in switches:
        inside = nodes & switch.nodes
        if len(inside) < MIN_NODES or inside <= explained:
            continue
        share = len(inside) / len(switch.nodes)
        others = everyone - switch.nodes
        outside = len(nodes - switch.nodes) / len(others) if others else 0.0
        if share >= MIN_SHARE and outside <= MAX_OUTSIDE * share:
            explained |= switch.nodes
            yield switch


def _finding(switch: Switch, told: Sequence[tuple[str, frozenset[str]]]) -> FleetFinding:
    nodes = sorted(frozenset().union(*(nodes for _, nodes in told)))
    ordered = sorted(told, key=lambda one: (not one[0].startswith("fail "), -len(one[1]), one[0]))
    shared = "; ".join(f"{name} on {len(nodes)}" for name, nodes in ordered[:6])
    more = f"; {len(ordered) - 6} more" if len(ordered) > 6 else ""
    if switch.kind == "fleet":
        subject = "all nodes asked"
        hint = "what they share is the place to look: profile, software, network, or the way there"
    else:
        subject = f"{switch.kind} {switch.name}"
        hint = f"look at the {switch.kind} before its nodes: power, cooling, uplink, image"
    severity = Severity.FAIL if any(not n.startswith("warn ") for n, _ in told) else Severity.WARN
    return FleetFinding(
        "common-cause",
        severity,
        subject,
        switch.name or "fleet",
        tuple(nodes),
        f"{len(nodes)} of {len(switch.nodes)} nodes of {subject} alike ({shared}{more}): {hint}",
        measured=len(nodes),
        expected=0,
    )
