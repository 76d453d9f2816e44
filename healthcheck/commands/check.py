"""`flightcheck check`: look at this node and say whether it may fly."""

import os

import click

from healthcheck.host import host_at
from healthcheck.registry import STAGES
from healthcheck.runner import Request, run


@click.command("check")
@click.option("--stage", type=click.Choice(STAGES), default="sweep", show_default=True)
@click.option("--root", default=lambda: os.environ.get("FLIGHTCHECK_ROOT"))
@click.option("--json", "form", flag_value="json")
def command(stage: str, root: str | None, form: str | None) -> int:
    """Look at this node: go (0), degraded (1), no-go (2) or unknown (3)."""
    from healthcheck.report.json import to_json

    result = run(Request(host_at(root), stage))
    click.echo(to_json(result.report))
    return result.report.verdict.exit_code
