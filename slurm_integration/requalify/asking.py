"""Looking at drained nodes through the sweep's transports."""

from collections.abc import Mapping, Sequence

import msgspec

from slurm_integration.node_state import NodeState
from slurm_integration.sweep.engine import Engine
from slurm_integration.sweep.model import NodeResult
from slurm_integration.sweep.routes import Routes
from slurm_integration.sweep.slurm import state_text
from slurm_integration.sweep.transports.base import Errand, Target, Transport


class Way(msgspec.Struct, frozen=True):
    """How nodes are reached: ssh, as Slurm gives nobody a drained node; or local, this machine.

    Empty ssh settings: as ssh_config and OpenSSH's defaults say.
    """

    via: str = "ssh"
    program: str = "flightcheck"
    timeout_s: float = 60.0
    fanout: int = 32
    ssh_config: str = ""
    user: str = ""
    identity: str = ""


class SweepLook:
    """A Look through ssh or on this machine. Raises SweepError for an unreadable ssh_config.

    Ctrl-C ends it and the round with it: KeyboardInterrupt, and nothing is resumed.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._errand = Errand(program=way.program, timeout_s=way.timeout_s, fanout=way.fanout)

    def __call__(self, nodes: Sequence[NodeState]) -> Mapping[str, NodeResult]:
        """Results by node."""
        targets = tuple(
            Target(node.name, state_text(node), "sweep", node.partitions) for node in nodes
        )
        engine = Engine({"ssh": self._ssh, "local": self._local}, lambda _: None)
        gathered = engine.run(targets, Routes({self._way.via: targets}))
        if gathered.interrupted:
            raise KeyboardInterrupt
        return {result.node: result for result in gathered.results}

    def _ssh(self) -> Transport:
        from slurm_integration.sweep.transports.ssh import SshSettings, SshTransport

        way = self._way
        return SshTransport(self._errand, SshSettings(way.ssh_config, way.user, way.identity))

    def _local(self) -> Transport:
        from slurm_integration.sweep.transports.local import LocalTransport

        return LocalTransport(self._errand)
