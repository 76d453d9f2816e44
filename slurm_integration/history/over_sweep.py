"""Asking nodes for their events over the sweep's transports."""

from collections.abc import Callable, Sequence

import msgspec

from slurm_integration.history.collect import HistoryErrand, Keep, Show
from slurm_integration.sweep.engine import Engine
from slurm_integration.sweep.routes import make_targets, route
from slurm_integration.sweep.slurm import Known
from slurm_integration.sweep.transports.base import Transport


class Way(msgspec.Struct, frozen=True):
    """How nodes are reached, in the words of `flightcheck sweep`."""

    via: str = "ssh"
    accept_new: bool = False
    ssh_config: str = ""
    user: str = ""
    identity: str = ""
    srun: str = ""


class SweepAsk:
    """An `Ask` of history.collect. `known`: Slurm's view of the nodes, None where there is none."""

    def __init__(self, way: Way, known: Known | None) -> None:
        self._way = way
        self._known = known
        self.notes: list[str] = []

    def __call__(self, names: Sequence[str], errand: HistoryErrand, show: Show, keep: Keep) -> bool:
        """Ask them all; whether somebody interrupted it. Raises SweepError (ssh_config)."""
        targets = make_targets(names, self._known, "health")
        routes = route(targets, self._known, self._way.via)
        engine = Engine(self._makers(errand), show, keep)
        gathered = engine.run(targets, routes)
        self.notes += [note for way in engine.used for note in getattr(way, "notes", ())]
        return gathered.interrupted

    def _makers(self, errand: HistoryErrand) -> dict[str, Callable[[], Transport]]:
        way = self._way

        def srun() -> Transport:
            from slurm_integration.sweep.transports.srun import SrunTransport

            return SrunTransport(errand, way.srun)

        def ssh() -> Transport:
            from slurm_integration.sweep.transports.ssh import SshSettings, SshTransport

            settings = SshSettings(way.ssh_config, way.user, way.identity, way.accept_new)
            return SshTransport(errand, settings)

        def local() -> Transport:
            from slurm_integration.sweep.transports.local import LocalTransport

            return LocalTransport(errand)

        return {"srun": srun, "ssh": ssh, "local": local}
