"""`flightcheck drains`: which nodes we took out of service, since when and why."""

import click
import msgspec

from slurm_integration.commands.listing import as_text, list_drains
from slurm_integration.node_state import parse_nodes
from slurm_integration.scontrol import Scontrol

EXIT_NO_SLURM = 3


@click.command("drains")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@click.option("--scontrol", default="", help="Absolute path of scontrol; default: searched.")
def command(as_json: bool, scontrol: str) -> None:
    """List the nodes that flightcheck drained.

    Drains of others are counted, never listed. Exit code 0, or 3 where Slurm can't be read.
    """
    answer = Scontrol(scontrol, timeout_s=30).show_nodes()
    if not answer.ok:
        click.echo(f"flightcheck drains: can't read the nodes: {answer.trouble()}", err=True)
        raise SystemExit(EXIT_NO_SLURM)
    listing = list_drains(parse_nodes(answer.stdout))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(listing), indent=2).decode())
    else:
        click.echo(as_text(listing))
