"""`flightcheck notify`: hand this node's new events over now, or try whether somebody hears."""

import os
import time

import click

from healthcheck.config import CONFIG_PATH, load_config, state_dir_here
from healthcheck.node_event import NodeEvent, new_id

EXIT_FAILED = 1


@click.command("notify")
@click.option("--test", is_flag=True, help="Send one event that says it is a test.")
@click.option(
    "--config", metavar="FILE", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH,
    show_default=True, help="Configuration, whose [notify] names the program.",
)  # fmt: skip
def command(test: bool, config: str) -> int:
    """Hand this node's new events to the program of [notify] on_event.

    The health program does the same every few minutes; a timer can run this where there is none.
    Exit code 0; 1 where the program did not take them; 64 where none is named.
    """
    from slurm_integration.notify.deliver import deliver, send
    from slurm_integration.notify.settings import settings_of

    loaded, notes, _ = load_config(config)
    for note in notes:
        click.echo(f"flightcheck notify: {note}", err=True)
    settings, trouble = settings_of(loaded.notify)
    if trouble:
        click.echo(f"flightcheck notify: {trouble}", err=True)
    if not settings.on_event:
        raise click.UsageError(
            f'no program is named: in {config} write [notify] on_event = ["/path/program"]; '
            "ready ones are in examples/on-event"
        )
    if test:
        now = time.time()
        event = NodeEvent(
            new_id(now), now, os.uname().nodename.partition(".")[0], "alert", verdict="test",
            message="a test of flightcheck's notifications; nothing is wrong",
        )  # fmt: skip
        told = list(filter(None, [send(event, settings)]))
    else:
        told = deliver(state_dir_here(loaded), settings, time.time())
    for line in told:
        click.echo(f"flightcheck notify: {line}", err=True)
    if not told:
        click.echo("handed over")
    return EXIT_FAILED if told else 0
