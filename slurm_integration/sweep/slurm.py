"""What a sweep asks Slurm: all nodes in one read, and the topology in another."""

import re

import msgspec

from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.scontrol import Answer, Scontrol

_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]*)?(?::(\d+))")


class SweepScontrol(Scontrol):
    """scontrol with one more question."""

    def show_topology(self) -> Answer:
        """Switches and their nodes, one a line."""
        return self._call(["-o", "show", "topology"], None)


class Known(msgspec.Struct, frozen=True):
    """Slurm's nodes by name, how many GPUs Slurm hands out on each, and their host names."""

    nodes: dict[str, NodeState]
    gpus: dict[str, int]
    hosts: dict[str, str] = {}


def read_known(text: str) -> Known:
    """All nodes of `scontrol -a -o show node`. Pure."""
    nodes = {node.name: node for node in parse_nodes(text)}
    gpus, hosts = {}, {}
    for line in text.split("\nNodeName="):
        name, space, rest = line.removeprefix("NodeName=").partition(" ")
        rest = space + rest
        # Free text (comments, reasons) stands behind State=, these two before it.
        rest = rest[: max(0, rest.find(" State="))]
        gpus[name] = sum(int(count) for count in _GPUS.findall(_field(rest, " Gres=")))
        hosts[name] = _field(rest, " NodeHostName=")
    return Known(nodes, gpus, hosts)


def _field(line: str, key: str) -> str:
    start = line.find(key)
    return line[start + len(key) :].partition(" ")[0] if start >= 0 else ""


def state_text(node: NodeState) -> str:
    """`IDLE+DRAIN`."""
    return "+".join((node.base, *node.flags)) + node.suffix.replace("+", "")
