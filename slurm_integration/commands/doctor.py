"""`flightcheck doctor`: does Slurm's configuration fit, and this node's installation?"""

import os
import sys

import click

from healthcheck.config import CONFIG_PATH

EXIT_ADVICE, EXIT_WRONG = 1, 2


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--node-only", is_flag=True, help="Look at this node alone; do not ask Slurm.")
@click.option("--slurm-conf", metavar="FILE", type=click.Path(dir_okay=False),
              help="Judge this slurm.conf in place of what scontrol shows.")  # fmt: skip
@click.option("--config", metavar="FILE", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH,
              show_default=True, help="flightcheck's configuration.")  # fmt: skip
def command(as_json: bool, node_only: bool, slurm_conf: str | None, config: str) -> int:
    """Say what of Slurm's configuration and of this node does not fit, and how to mend it.

    Nothing is changed. Slurm is asked once (`scontrol show config`).

    Exit code: 0 nothing wrong, 1 advice only, 2 something is wrong.
    """
    if node_only and slurm_conf:
        raise click.UsageError("--node-only asks nothing of Slurm: leave out --slurm-conf")
    from healthcheck.host import host_at
    from slurm_integration.doctor.gather import doctor
    from slurm_integration.doctor.model import Level

    host = host_at(os.environ.get("FLIGHTCHECK_ROOT"))
    found = doctor(host, config, slurm_conf, ask=not node_only)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        from slurm_integration.doctor.text import as_text, show

        show(found) if sys.stdout.isatty() else click.echo(as_text(found))
    if found.count(Level.WRONG):
        return EXIT_WRONG
    return EXIT_ADVICE if found.complaints else 0
