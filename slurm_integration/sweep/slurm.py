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
    """Slurm's nodes by name, and how many GPUs Slurm hands out on each."""

    nodes: dict[str, NodeState]
    gpus: dict[str, int]


def read_known(text: str) -> Known:
    """All nodes of `scontrol -a -o show node`. Pure."""
    nodes = {node.name: node for node in parse_nodes(text)}
    gpus = {}
    for line in text.split("\nNodeName="):
        name, space, rest = line.removeprefix("NodeName=").partition(" ")
        rest = space + rest
        start = rest.find(" Gres=")
        # Free text (comments, reasons) stands behind State=, Gres= before it.
        if 0 <= start < rest.find(" State="):
            gres = rest[start + 6 :].partition(" ")[0]
            gpus[name] = sum(int(count) for count in _GPUS.findall(gres))
    return Known(nodes, gpus)


def state_text(node: NodeState) -> str:
    """`IDLE+DRAIN`."""
    return "+".join((node.base, *node.flags)) + node.suffix.replace("+", "")
