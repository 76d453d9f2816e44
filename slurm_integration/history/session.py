"""One `flightcheck collect` from its options to its exit code."""

import os
import time
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from healthcheck.command import run_command
from healthcheck.config import Config
from slurm_integration.history.collect import Collector, Summary
from slurm_integration.history.lemons import rank, signals
from slurm_integration.history.options import stop
from slurm_integration.history.over_sweep import SweepAsk, Way
from slurm_integration.history.reliability import reliability
from slurm_integration.history.slurm_signs import (
    SQUEUE,
    excluded_events,
    held_events,
    parse_excluded,
    untold,
)
from slurm_integration.history.store import Store
from slurm_integration.history.tables import summary_text
from slurm_integration.scontrol import FOLDERS, Scontrol, environment
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.nodeset import expand
from slurm_integration.sweep.slurm import Known, read_known
from slurm_integration.sweep.transports.base import Errand

SLURM_S = 30.0
WINDOW_S = 30 * 86_400.0
"""What the fleet's metrics look back on."""


class Session:
    """Ask Slurm, ask the nodes, keep it, tell it. `given`: the ways of the command line."""

    def __init__(self, store: Store, config: Config, given: Mapping[str, Any]) -> None:
        self._store = store
        self._config = config
        self._via: str = given["via"]
        self._folder = (config.drain.scontrol or "").rpartition("/")[0]
        self._notes: list[str] = []
        self._way = Way(
            self._via, given["accept_new"], given["ssh_config"], given["user"],
            given["identity"], self._tool("srun"),
        )  # fmt: skip
        self._errand = Errand(
            program=given["program"], timeout_s=given["timeout_s"], fanout=given["fanout"]
        )

    def run(self, nodelist: str, keep_s: float, as_json: bool) -> int:
        """The exit code. Raises SweepError where the nodes are not known, HistoryError."""
        started = time.monotonic()
        named = expand(nodelist) if nodelist else []
        known = self._known()
        names = named or self._names(known)
        ask = SweepAsk(self._way, known)
        summary = Collector(self._store, time.time).run(names, ask, self._errand)
        if known is not None:
            self._keep_signs(known)
        self._store.prune(time.time() - keep_s)
        self.write_metrics(summary)
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(summary), indent=2))
        else:
            click.echo(summary_text(summary, time.monotonic() - started))
        for note in dict.fromkeys([*self._notes, *ask.notes]):
            click.echo(f"flightcheck collect: note: {note}", err=True)
        return 130 if summary.interrupted else int(bool(summary.failed))

    def _known(self) -> Known | None:
        if self._via == "local":
            return None
        answer = Scontrol(self._config.drain.scontrol or "", SLURM_S).show_nodes()
        if answer.ok:
            return read_known(answer.stdout)
        self._notes.append(f"Slurm's nodes are not known: {answer.trouble()}")
        return None

    def _names(self, known: Known | None) -> list[str]:
        """Every node that is there."""
        if self._via == "local":
            return [os.uname().nodename.partition(".")[0]]
        if known is None:
            stop("collect", f"{'; '.join(self._notes)}. Name the nodes with -w, or mend that")
        off = {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "CLOUD_OFF"}
        names = [
            node.name
            for node in known.nodes.values()
            if node.base != "FUTURE" and off.isdisjoint(node.flags) and "~" not in node.suffix
        ]
        asleep = len(known.nodes) - len(names)
        if asleep:
            self._notes.append(f"{asleep} nodes are powered down or future, and were not asked")
        if not names:
            raise SweepError("which nodes? Slurm knows none that is there; expected -w NODELIST")
        return names

    def _keep_signs(self, known: Known) -> None:
        """Whom users exclude, and who is out of service, as Slurm tells it now."""
        now = time.time()
        told = [
            event
            for node in known.nodes.values()
            if node.held and node.reason_time is not None
            for event in self._store.events(node.name, node.reason_time - 600, kinds=("drain",))
            if event.stage != "slurm"
        ]
        self._store.add(untold(held_events(known.nodes.values(), now), told))
        squeue = self._tool("squeue")
        if not squeue:
            self._notes.append("squeue is not there: who excludes which node is not known")
            return
        done = run_command([squeue, *SQUEUE], SLURM_S, env=environment())
        if done.code != 0:
            said = " ".join(done.stderr.split())[:200]
            self._notes.append(f"squeue failed ({done.code}): {said}; exclusions are not known")
            return
        real = (one for one in parse_excluded(done.stdout) if one.node in known.nodes)
        self._store.add(excluded_events(real, now))

    def _tool(self, name: str) -> str:
        folders = (self._folder,) if self._folder else FOLDERS
        return next((f"{f}/{name}" for f in folders if os.access(f"{f}/{name}", os.X_OK)), "")

    def write_metrics(self, summary: Summary) -> None:
        """The fleet's figures, for a site that has set metrics_dir; a note where that failed."""
        folder = getattr(self._config, "metrics_dir", None)
        if not folder:
            return
        from slurm_integration.metrics.fleet import MAX_LEMONS, fleet_gauges
        from slurm_integration.metrics.textfile import render, write

        now = time.time()
        since = now - WINDOW_S
        tallies, nodes = self._store.tallies(since), self._store.nodes()
        ranking = rank(signals(tallies, nodes, since, now), MAX_LEMONS, since, now)
        statistics = reliability(tallies, nodes, since, now)
        told = write(folder, "collect", render(fleet_gauges(summary, ranking, statistics, now)))
        if told:
            self._notes.append(told)
