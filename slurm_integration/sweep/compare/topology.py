"""Racks and switches: from Slurm, from a file in topology.conf's form, or from names. Pure."""

import re
from collections.abc import Iterable, Mapping

import msgspec

from slurm_integration.sweep.nodeset import named

_FIELD = re.compile(r"(\w+)=(\S+)")
_NUMBERED = re.compile(r"(.*\d.*\D)\d+")
"""A name with two numbers: what stands before the last one is its rack (`r12-n03` → `r12-n*`)."""


class Switch(msgspec.Struct, frozen=True):
    """A switch, block or rack, and every node below it. `kind` is for the reader."""

    name: str
    kind: str
    nodes: frozenset[str]


class Topology(msgspec.Struct, frozen=True):
    """Switches, the widest first."""

    switches: tuple[Switch, ...] = ()

    def groups(self, names: Iterable[str]) -> tuple[Switch, ...]:
        """The switches that tell these nodes apart; where Slurm names none, racks by name."""
        asked = frozenset(names)
        below = [
            Switch(switch.name, switch.kind, switch.nodes & asked)
            for switch in self.switches
            if switch.nodes & asked
        ]
        return tuple(below) or _by_name(asked)

    def leaf_of(self, names: Iterable[str]) -> Mapping[str, str]:
        """Node → the narrowest switch or rack above it."""
        found: dict[str, str] = {}
        for switch in self.groups(list(names)):  # widest first: the narrowest is written last
            found |= dict.fromkeys(switch.nodes, switch.name)
        return found


def read_topology(text: str) -> Topology:
    """topology.conf, or `scontrol -o show topology`: SwitchName=… or BlockName=… a line.

    A line that can't be understood is left out: a wrong rack helps nobody.
    """
    nodes: dict[str, set[str]] = {}
    children: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        fields = {name.lower(): value for name, value in _FIELD.findall(line.partition("#")[0])}
        name = fields.get("switchname") or fields.get("blockname")
        if not name:
            continue
        kinds[name] = "block" if "blockname" in fields else "switch"
        nodes[name] = _expand(fields.get("nodes", ""))
        children[name] = sorted(_expand(fields.get("switches", "")))
    for _ in range(len(nodes)):  # a tree's depth at most; a cycle in a broken file ends too
        grown = False
        for name, below in children.items():
            before = len(nodes[name])
            for child in below:
                nodes[name] |= nodes.get(child, set())
            grown |= len(nodes[name]) > before
        if not grown:
            break
    made = [Switch(name, kinds[name], frozenset(nodes[name])) for name in nodes if nodes[name]]
    return Topology(tuple(sorted(made, key=lambda one: (-len(one.nodes), one.name))))


def _expand(text: str) -> set[str]:
    if not text or text == "(null)":
        return set()
    try:
        return {str(name) for name in named(text)}
    except ValueError:
        return set()


def _by_name(names: frozenset[str]) -> tuple[Switch, ...]:
    racks: dict[str, set[str]] = {}
    for name in names:
        told = _NUMBERED.fullmatch(name.partition(".")[0])
        if told:
            racks.setdefault(told[1], set()).add(name)
    if len(racks) < 2:
        return ()
    made = [Switch(f"{rack}*", "rack", frozenset(nodes)) for rack, nodes in racks.items()]
    return tuple(sorted(made, key=lambda one: (-len(one.nodes), one.name)))
