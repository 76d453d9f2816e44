"""`flightcheck lemons`: the few nodes that cause most of the trouble."""

import time

import click
import msgspec

from slurm_integration.history.options import database_options, opened, since_option


@click.command("lemons")
@since_option("30d")
@click.option("-n", "top", type=click.IntRange(1, 1000), default=10, show_default=True,
              help="How many nodes.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@database_options
def command(since: float, top: int, as_json: bool, db: str, config: str) -> int:
    """Rank nodes by how unlikely their troubles are for a node like the others.

    Counted: users who exclude the node, days with hardware Xids, times out of service, and jobs
    that it made fail. Exit code 0; 3 where the database can't be used.
    """
    from slurm_integration.history.lemons import rank, signals
    from slurm_integration.history.tables import lemons_text

    now = time.time()
    with opened("lemons", db, config) as store:
        fleet = signals(store.tallies(since), store.nodes(), since, now)
        ranking = rank(fleet, top, since, now)
        xids = store.xids([one.signals.node for one in ranking.worst], since)
    worst = tuple(
        msgspec.structs.replace(one, xids=tuple(xids.get(one.signals.node, ())))
        for one in ranking.worst
    )
    ranking = msgspec.structs.replace(ranking, worst=worst)
    if as_json:
        data = {**msgspec.to_builtins(ranking), "share": ranking.share}
        click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2))
    else:
        click.echo(lemons_text(ranking))
    return 0
