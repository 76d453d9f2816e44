"""One `flightcheck sweep` from its options to its exit code."""

import os
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from healthcheck import __version__
from healthcheck.config import Config
from slurm_integration.history.tell import tell_history
from slurm_integration.sweep.compare import compare
from slurm_integration.sweep.compare.topology import Topology, read_topology
from slurm_integration.sweep.drains import Drainer, wishes
from slurm_integration.sweep.engine import Engine, Gathered
from slurm_integration.sweep.gather import exit_code
from slurm_integration.sweep.model import (
    Action,
    Comparison,
    Sweep,
    SweepError,
)
from slurm_integration.sweep.nodeset import expand, fold
from slurm_integration.sweep.options import Options
from slurm_integration.sweep.output import open_files, tell, write
from slurm_integration.sweep.routes import Routes, make_targets, route, select_nodes
from slurm_integration.sweep.screen import Lines, Live, Nothing, Screen
from slurm_integration.sweep.slurm import Known, SweepScontrol, read_known
from slurm_integration.sweep.transports.base import Errand, Target, Transport

EXIT_INTERRUPTED = 130
SLURM_S = 30.0
"""Seconds for one call of scontrol: a controller under load takes its time with 10,000 nodes."""
_SETTLE_S = 10.0
"""How long nodes of a failed step may take to become idle again."""


class Session:
    """Reads the options, asks the nodes, tells and writes what came of it."""

    def __init__(
        self,
        options: Options,
        config: Config,
        notes: Sequence[str],
        out: TextIO,
        err: TextIO,
    ) -> None:
        options.check()
        self._options, self._config = options, config
        self._out, self._err = out, err
        self._notes = list(notes)
        self._slurm = SweepScontrol(config.drain.scontrol or "", SLURM_S)
        self._errand = Errand(
            options.program, options.only, options.skip, bool(options.save_dir),
            options.timeout_s, options.fanout,
        )  # fmt: skip

    def run(self) -> int:
        """The exit code. Raises SweepError where the sweep can't begin."""
        open_files(self._options)
        if self._options.via in ("auto", "srun") and os.geteuid() != 0:
            self._notes.append("not root: through srun, checks see only what this user may see")
        started_at, started = time.time(), time.monotonic()
        known = self._known()
        targets = make_targets(self._names(known), known, self._options.stage)
        topology = self._topology(known)
        gathered, used = self._ask(targets, known)
        comparison = compare(gathered.results, topology)
        if self._options.deep and not gathered.interrupted:
            comparison = self._deep(gathered, comparison)
        sweep = Sweep(
            started_at=round(started_at, 3),
            seconds=round(time.monotonic() - started, 3),
            stage=self._options.stage,
            results=gathered.results,
            interrupted=gathered.interrupted,
            comparison=comparison,
            actions=tuple(self._drain(gathered)),
            notes=tuple(dict.fromkeys([*self._notes, *_notes_of(used)])),
            version=__version__,
        )
        tell(sweep, self._options, self._out)
        write(sweep, self._options, topology, self._out, self._err)
        return EXIT_INTERRUPTED if sweep.interrupted else exit_code(sweep.results)

    def _known(self) -> Known | None:
        """Slurm's view; None where it can't be had and is not needed."""
        options = self._options
        if options.via == "local":
            return None
        answer = self._slurm.show_nodes()
        if answer.ok:
            return read_known(answer.stdout)
        if not options.nodelist or options.via == "srun" or options.drain:
            raise SweepError(f"can't read the nodes: {answer.trouble()}")
        self._notes.append(f"Slurm's states are not known, all through ssh: {answer.trouble()}")
        return None

    def _names(self, known: Known | None) -> list[str]:
        options = self._options
        if options.nodelist:
            names = expand(options.nodelist)
            unknown = [name for name in names if known and name not in known.nodes]
            if unknown:
                self._notes.append(f"Slurm knows no node {fold(unknown)}: asked through ssh")
        elif known is not None:
            names = select_nodes(known, options.partition, options.state)
        else:
            names = [os.uname().nodename.partition(".")[0]]
        if options.via == "local" and (
            len(names) != 1 or names[0] not in (os.uname().nodename.partition(".")[0], "localhost")
        ):
            here = os.uname().nodename.partition(".")[0]
            raise SweepError(f"--via local looks at this machine alone: expected -w {here}")
        return names

    def _topology(self, known: Known | None) -> Topology:
        if self._options.topology:
            try:
                with open(self._options.topology, encoding="utf-8", errors="replace") as file:
                    return read_topology(file.read(64 << 20))
            except OSError as error:
                told = f"--topology {self._options.topology}: {error.strerror}"
                raise SweepError(told) from error
        if known is None:
            return Topology()
        answer = self._slurm.show_topology()
        return read_topology(answer.stdout) if answer.ok else Topology()

    def _ask(
        self, targets: Sequence[Target], known: Known | None
    ) -> tuple[Gathered, Sequence[Transport]]:
        via = self._options.via
        again = self._reroute if via in ("auto", "srun") and known else None
        with self._screen(len(targets)) as screen:
            engine = Engine(self._makers(), screen.show, self._keep, again, screen.tick)
            return engine.run(targets, route(targets, known, via)), engine.used

    def _deep(self, gathered: Gathered, comparison: Comparison) -> Comparison:
        """all_reduce over the nodes that are idle now, batch by batch. Ctrl-C ends it early."""
        from slurm_integration.sweep import deep
        from slurm_integration.sweep.transports.srun import find_srun

        answer = self._slurm.show_nodes()
        if not answer.ok:
            self._notes.append(f"deep: nothing was tested: {answer.trouble()}")
            return comparison
        known = read_known(answer.stdout)
        ready, left = deep.choose(gathered.results, known)
        beside = (self._config.drain.scontrol or "").rpartition("/")[0]
        srun = f"{beside}/srun" if beside else find_srun()
        flown = []
        try:
            for batch in deep.batches(ready, self._options.deep_nodes):
                self._err.write(f"deep: all_reduce over {fold(batch)}\n")
                gpus = min(known.gpus.get(node, 0) for node in batch)
                options = self._options
                flown.append(deep.fly(batch, gpus, options.program, options.deep_with, srun))
        except KeyboardInterrupt:
            self._notes.append("deep: ended early; its Slurm job was ended")
        found, notes = deep.judge(flown, left)
        self._notes += notes
        return Comparison(
            (*comparison.findings, *found.findings), (*comparison.metrics, *found.metrics)
        )

    def _reroute(self, targets: Sequence[Target], number: int) -> Routes:
        """What srun could not do: once more with whoever is idle now, then through ssh."""
        via, known = self._options.via, None
        until = time.monotonic() + _SETTLE_S
        while time.monotonic() < until:
            answer = self._slurm.show_nodes()
            known = read_known(answer.stdout) if answer.ok else None
            if known is None or not any(
                "COMPLETING" in known.nodes[t.node].flags for t in targets if t.node in known.nodes
            ):
                break
            time.sleep(0.5)
        fresh = make_targets([target.node for target in targets], known, self._options.stage)
        if via == "auto" and (known is None or number > 1):
            return Routes({"ssh": tuple(fresh)})
        if known is None:
            return Routes(refused=tuple((target, "Slurm does not answer") for target in fresh))
        return route(fresh, known, via)

    def _makers(self) -> dict[str, Callable[[], Transport]]:
        """Each transport is only imported and set up where a node needs it."""
        return {"srun": self._srun, "ssh": self._ssh, "local": self._local}

    def _srun(self) -> Transport:
        from slurm_integration.sweep.transports.srun import SrunTransport

        beside = (self._config.drain.scontrol or "").rpartition("/")[0]
        return SrunTransport(self._errand, f"{beside}/srun" if beside else "")

    def _ssh(self) -> Transport:
        from slurm_integration.sweep.transports.ssh import SshSettings, SshTransport

        options = self._options
        return SshTransport(
            self._errand,
            SshSettings(options.ssh_config, options.user, options.identity, options.accept_new),
        )

    def _local(self) -> Transport:
        from slurm_integration.sweep.transports.local import LocalTransport

        return LocalTransport(self._errand)

    def _screen(self, total: int) -> Screen:
        if self._options.json_file == "-":
            return Nothing(self._out)
        if self._out.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console

            return Live(total, Console(file=self._out))
        return Lines(self._out)

    def _keep(self, node: str, snapshot: bytes) -> None:
        """One node's snapshot, in the form of `check --save`."""
        assert self._options.save_dir is not None
        try:
            with open(f"{self._options.save_dir}/{node}.json", "wb") as file:
                file.write(snapshot)
        except OSError as error:
            self._notes.append(f"--save: {node}.json: {error.strerror}")

    def _drain(self, gathered: Gathered) -> list[Action]:
        """Nothing after an interruption: half a sweep is no ground to act on."""
        if gathered.interrupted:
            return []
        wanted, told = wishes(gathered.results, self._config)
        if not wanted or self._options.via == "local":
            return told
        drainer = Drainer(self._slurm, self._config, dry_run=not self._options.drain)
        actions = [*told, *drainer.drain(wanted)]
        for action in actions:
            if action.what == "drained":
                note = tell_history(
                    self._config, "drain", action.nodes, action.reason,
                    outcome="drained", stage="sweep",
                )  # fmt: skip
                self._notes += [note] if note else []
        return actions


def _notes_of(used: Sequence[Transport]) -> list[str]:
    return [note for transport in used for note in getattr(transport, "notes", ())]
