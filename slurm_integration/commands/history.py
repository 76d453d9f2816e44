"""`flightcheck history NODE`: what happened to a node. And what a node hands out of its own log."""

import os
from math import isfinite

import click
import msgspec

from healthcheck.config import load_config
from healthcheck.host import host_at
from healthcheck.node_event import NodeEvent
from healthcheck.runner import state_folder
from slurm_integration.history.options import database_options, opened, since_option, stop


@click.command("history")
@click.argument("node", required=False)
@since_option("30d")
@click.option("-n", "limit", type=click.IntRange(1, 100_000), default=50, show_default=True,
              help="How many events at most.")  # fmt: skip
@click.option("--kind", "kinds", multiple=True, metavar="KIND",
              help="Only these (drain, xid, job-failure, …); may be given again.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="A JSON list, the newest first.")
@click.option("--export-since", type=click.FloatRange(0), metavar="SECONDS",
              help="For `flightcheck collect`: hand out this node's own log.")  # fmt: skip
@database_options
def command(
    node: str | None, since: float, limit: int, kinds: tuple[str, ...], as_json: bool,
    export_since: float | None, db: str, config: str,
) -> int:  # fmt: skip
    """Show what happened to NODE: verdicts, findings, drains, failed jobs, Xids.

    NODE is looked up in the database that `flightcheck collect` fills. Without NODE: this
    machine's own log. Exit code 0; 3 where the database or the log can't be read.
    """
    if export_since is not None:
        if not isfinite(export_since):
            raise click.UsageError(f"--export-since: expected unix seconds, found {export_since}")
        return _export(config, export_since)
    if node is None:
        name, events = _own(config, since, limit, kinds)
    else:
        name = node
        with opened("history", db, config) as store:
            events = store.events(node, since, limit, kinds)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(events), indent=1))
    else:
        from slurm_integration.history.tables import history_text

        click.echo(history_text(name, events, limit))
    return 0


def _folder(config: str) -> tuple[str, str]:
    """(state folder, name) of this node."""
    host = host_at(os.environ.get("FLIGHTCHECK_ROOT"))
    settings, _, _ = load_config(config, verify=False)
    name = os.environ.get("SLURMD_NODENAME") or host.node_name()
    return state_folder(host, settings), name


def _export(config: str, since: float) -> int:
    from slurm_integration.history.export import make_export

    folder, name = _folder(config)
    try:
        click.echo(make_export(folder, name, since))
    except OSError as error:
        stop("history", f"{folder}: {error.strerror}; expected to run as root")
    return 0


def _own(
    config: str, since: float, limit: int, kinds: tuple[str, ...]
) -> tuple[str, list[NodeEvent]]:
    from healthcheck.event_log import read_since

    folder, name = _folder(config)
    try:
        page = read_since(folder)
    except OSError as error:
        stop("history", f"{folder}: {error.strerror}; expected to run as root")
    events = [e for e in page.events if e.at >= since and (not kinds or e.kind in kinds)]
    events.sort(key=lambda event: event.at, reverse=True)
    return name, events[:limit]
