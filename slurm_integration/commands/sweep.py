"""`flightcheck sweep`: look at many nodes at once, and at what they have in common."""

import signal
import sys
from types import FrameType
from typing import Any

import click

from healthcheck.config import CONFIG_PATH, load_config
from healthcheck.registry import STAGES
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.options import VIAS, Options


@click.command("sweep")
@click.option("-w", "--nodelist", metavar="NODELIST", default="", help="node[01-04,07], @group.")
@click.option("-p", "--partition", metavar="P,Q", default="", help="All nodes of these.")
@click.option("--state", metavar="S,T", default="", help="Nodes in these states: idle, drained, "
              "down, busy, ours, …")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="All nodes that Slurm knows.")
@click.option("--via", type=click.Choice(VIAS), default="auto", show_default=True,
              help="auto: srun for what Slurm can allocate, ssh for the rest.")  # fmt: skip
@click.option("--fanout", type=click.IntRange(1, 1024), default=64, show_default=True,
              help="How many hosts at a time through ssh.")  # fmt: skip
@click.option("--stage", type=click.Choice(STAGES), default="sweep", show_default=True,
              help="Which checks. Nodes busy with a job get those of `health`.")  # fmt: skip
@click.option("--only", metavar="A,B", default="", help="Only these checks.")
@click.option("--skip", metavar="A,B", default="", help="Not these checks.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=60,
              show_default=True, help="Seconds for one node, all in all.")  # fmt: skip
@click.option("--json", "json_file", metavar="FILE", help="Write everything as JSON; - for stdout.")
@click.option("--html", "html_file", metavar="FILE", help="Write the report that people look at.")
@click.option("--save", "save_dir", metavar="DIR", help="Keep each node's snapshot, to be judged "
              "again with `flightcheck check --replay`.")  # fmt: skip
@click.option("--drain/--dry-run", "drain", default=False,
              help="Drain what is no-go, within the budget; by default only say it.")  # fmt: skip
@click.option("--deep", is_flag=True, help="Then run all_reduce over the idle nodes, as exclusive "
              "Slurm jobs: all together, and in pairs where that is slow.")  # fmt: skip
@click.option("--deep-nodes", type=click.IntRange(2, 1024), default=32, show_default=True,
              help="With --deep: how many nodes at a time.")  # fmt: skip
@click.option("--deep-with", multiple=True, metavar="OPTION", help="With --deep: a further option "
              "for `flightcheck allreduce`, such as --expect=180.")  # fmt: skip
@click.option("--topology", metavar="FILE", default="", help="A topology.conf that names racks or "
              "switches; default: Slurm's own.")  # fmt: skip
@click.option("--program", metavar="PATH", default="flightcheck", show_default=True,
              help="flightcheck on the nodes.")  # fmt: skip
@click.option("--accept-new", is_flag=True, help="Trust hosts whose key is not known yet, and "
              "remember it. A changed key is refused all the same.")  # fmt: skip
@click.option("--ssh-config", metavar="FILE", default="", help="As ssh -F.")
@click.option("--user", metavar="NAME", default="", help="As ssh -l.")
@click.option("--identity", metavar="FILE", default="", help="As ssh -i.")
@click.option("--config", metavar="FILE", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH,
              show_default=True, help="Configuration: drain budget and policy.")  # fmt: skip
def command(config: str, **given: Any) -> int:
    """Look at many nodes at once, each with `flightcheck check`, and compare them.

    Results come as they arrive; equal answers are gathered at the end. A host that gives no
    report is named with the reason, and is never called no-go.

    Exit code: the worst of all nodes, 2 no-go, 3 unknown or without a report, 1 degraded, 0 go;
    130 where it was ended early: what had arrived is still told and written, nothing is drained.
    Findings about the fleet are told and do not change it. 64 usage.

    --deep loads the GPUs of idle nodes for some minutes and keeps those nodes to itself. What it
    finds is told and drains nothing by itself.

    --drain means it, whatever dry_run in the configuration says; the budget holds all the same.
    """
    from slurm_integration.sweep.session import Session

    settings, notes, refused = load_config(config)
    if refused and given["drain"]:
        raise click.UsageError(f"--drain: not with a refused configuration: {notes[0]}")
    signal.signal(signal.SIGTERM, _interrupt)
    options = Options(**given)
    try:
        return Session(options, settings, notes, sys.stdout, sys.stderr).run()
    except SweepError as error:
        raise click.UsageError(str(error)) from error


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a sweep as Ctrl-C does."""
    raise KeyboardInterrupt
