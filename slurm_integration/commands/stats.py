"""`flightcheck stats`: how long nodes run between failures."""

import time

import click
import msgspec

from slurm_integration.history.options import database_options, opened, since_option


@click.command("stats")
@since_option("90d")
@click.option("--job-nodes", type=click.IntRange(1, 100_000), default=1, metavar="N",
              help="Say too how long a job on N nodes would run.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@database_options
def command(since: float, job_nodes: int, as_json: bool, db: str, config: str) -> int:
    """Mean time between failures by class of failure and by node type, with 95 % limits.

    A class is what made a job fail (charged to the node that began it) or a check that began to
    fail. Exit code 0; 3 where the database can't be used.
    """
    from slurm_integration.history.reliability import reliability
    from slurm_integration.history.tables import stats_text

    now = time.time()
    with opened("stats", db, config) as store:
        statistics = reliability(
            store.tallies(since), store.nodes(), since, now, store.job_failures(since)
        )
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(statistics), indent=2))
    else:
        click.echo(stats_text(statistics, job_nodes))
    return 0
