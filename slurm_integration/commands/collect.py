"""`flightcheck collect`: fetch what is new from the nodes' logs into the history."""

from typing import Any

import click

from healthcheck.config import Config, load_config, state_dir_here
from slurm_integration.history.options import database_options, opened, stop

EXIT_SOME_MISSING = 1
EXIT_INTERRUPTED = 130
EX_TEMPFAIL = 75
DAY_S = 86_400.0


@click.command("collect")
@click.option("-w", "--nodelist", metavar="NODELIST", default="",
              help="node[01-04,07]; default: all nodes that Slurm knows.")  # fmt: skip
@click.option("--via", type=click.Choice(("ssh", "srun", "auto", "local")), default="ssh",
              show_default=True, help="srun and auto take idle nodes for a moment.")  # fmt: skip
@click.option("--fanout", type=click.IntRange(1, 1024), default=64, show_default=True,
              help="How many hosts at a time through ssh.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=60,
              show_default=True, help="Seconds for one node.")  # fmt: skip
@click.option("--keep-days", type=click.IntRange(1, 36_500), default=400, show_default=True,
              help="Forget events older than this.")  # fmt: skip
@click.option("--program", metavar="PATH", default="flightcheck", show_default=True,
              help="flightcheck on the nodes.")  # fmt: skip
@click.option("--accept-new", is_flag=True, help="Trust hosts whose key is not known yet.")
@click.option("--ssh-config", metavar="FILE", default="", help="As ssh -F.")
@click.option("--user", metavar="NAME", default="", help="As ssh -l.")
@click.option("--identity", metavar="FILE", default="", help="As ssh -i.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object.")
@database_options
def command(
    nodelist: str, keep_days: int, as_json: bool, db: str, config: str, **given: Any
) -> int:
    """Fetch what is new from every node's own log into the history. Made for a timer.

    Also kept: whom users exclude from their jobs, and nodes that others took out of service. With
    `metrics_dir` set, the fleet's figures are written for node_exporter.

    Exit code: 0 all nodes answered, 1 some did not (told, and asked again next time), 3 the
    database or Slurm can't be used, 75 another collect is running, 130 ended early, 64 usage.
    """
    from slurm_integration.history.lock import Busy, only_one
    from slurm_integration.sweep.model import SweepError

    settings, _, _ = load_config(config)
    try:
        with opened("collect", db, config) as store, only_one(_lock(settings)):
            from slurm_integration.history.session import Session

            return Session(store, settings, given).run(nodelist, keep_days * DAY_S, as_json)
    except Busy as busy:
        click.echo(f"flightcheck collect: another one is running ({busy})", err=True)
        return EX_TEMPFAIL
    except SweepError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        stop("collect", f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _lock(config: Config) -> str:
    from healthcheck.own_folder import own_folder

    folder = state_dir_here(config)
    own_folder(folder)
    return f"{folder}/collect.lock"
