"""What requalify asks of Slurm, besides what everybody asks."""

import re

from slurm_integration.scontrol import Answer, Scontrol
from slurm_integration.sweep.nodeset import named

_NODES = re.compile(r"(?:^|\s)Nodes=(\S+)")
_STATE = re.compile(r"(?:^|\s)State=(\S+)")


class RequalifyScontrol(Scontrol):
    """scontrol with reservations and reboots."""

    def show_reservations(self) -> Answer:
        """All reservations, one a line."""
        self.reads += 1
        return self._call(["-o", "show", "reservation"], None)

    def reboot(self, nodes: str) -> Answer:
        """Reboot the folded list `nodes` with the site's RebootProgram; the drain stays."""
        self.updates += 1
        return self._call(["reboot", nodes], None)


def reserved_nodes(text: str) -> frozenset[str]:
    """The nodes of all active reservations. Raises ValueError for a node list of another form."""
    reserved: set[str] = set()
    for line in text.splitlines():
        nodes, state = _NODES.search(line), _STATE.search(line)
        if not line.startswith("ReservationName=") or nodes is None or nodes[1] == "(null)":
            continue
        if state is not None and state[1] != "ACTIVE":
            continue
        try:
            reserved.update(str(name) for name in named(nodes[1]))
        except ValueError as error:
            raise ValueError(f"reservation of nodes {nodes[1][:80]!r}: {error}") from error
    return frozenset(reserved)
