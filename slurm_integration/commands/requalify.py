"""`flightcheck requalify`: nodes that we drained come back by proof."""

from typing import Any

import click
import msgspec

from healthcheck.config import CONFIG_PATH, Config, load_config, state_dir_here
from slurm_integration.history.tell import tell_history

EXIT_FAILED = 3


@click.command("requalify")
@click.option("-w", "--nodelist", metavar="NODELIST", default="", help="Only these nodes.")
@click.option("--passes", type=click.IntRange(1, 50), help="Clean passes in a row.  [default: 3]")
@click.option("--spread", "spread_s", type=click.FloatRange(0, 7_776_000), metavar="S",
              help="Seconds between the first and the last of them.  [default: 3600]")  # fmt: skip
@click.option("--watch", is_flag=True, help="Go on, a round every --interval seconds.")
@click.option("--interval", "interval_s", type=click.FloatRange(1, 86_400), default=300,
              show_default=True, metavar="S", help="Seconds between rounds.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Look and remember, but resume and reboot nothing.")
@click.option("--via", type=click.Choice(["ssh", "local"]), default="ssh", show_default=True,
              help="How nodes are reached; Slurm gives nobody a drained node.")  # fmt: skip
@click.option("--fanout", type=click.IntRange(1, 1024), default=32, show_default=True,
              help="How many hosts at a time.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=60,
              show_default=True, help="Seconds for one node, all in all.")  # fmt: skip
@click.option("--program", metavar="PATH", default="flightcheck", show_default=True,
              help="flightcheck on the nodes.")  # fmt: skip
@click.option("--ssh-config", metavar="FILE", default="", help="As ssh -F.")
@click.option("--user", metavar="NAME", default="", help="As ssh -l.")
@click.option("--identity", metavar="FILE", default="", help="As ssh -i.")
@click.option("--state-dir", metavar="DIR", help="Where passes are remembered; default: state_dir "
              "of the configuration.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object a round.")
@click.option("--config", metavar="FILE", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH,
              show_default=True, help="Configuration.")  # fmt: skip
def command(
    nodelist: str, passes: int | None, spread_s: float | None, watch: bool, interval_s: float,
    dry_run: bool, state_dir: str | None, as_json: bool, config: str, **way: Any,
) -> int:  # fmt: skip
    """Bring back nodes that flightcheck drained, once they have proven themselves.

    A node comes back after clean passes of the check that drained it and of the whole set, in a
    row and spread over a time. Run it from a timer, or with --watch: each round looks only at
    nodes whose next pass would count. Never resumed: drains of others, nodes that are down,
    reserved or in maintenance, hardware to be replaced, and nodes that were drained again too
    soon after a resume, too often.

    Exit code 0; 3 where Slurm can't be read or refuses, or the state can't be kept.
    """
    from slurm_integration.requalify.asking import SweepLook, Way
    from slurm_integration.requalify.door import RequalifyScontrol
    from slurm_integration.requalify.round import Requalifier
    from slurm_integration.requalify.store import Store
    from slurm_integration.sweep.model import SweepError
    from slurm_integration.sweep.nodeset import expand

    settings, notes, refused = load_config(config)
    for note in notes:
        click.echo(f"flightcheck requalify: {note}", err=True)
    rules = _rules(settings, passes, spread_s)
    if settings.dry_run and not dry_run:
        click.echo("flightcheck requalify: dry_run is set: nothing is resumed", err=True)
    try:
        look = SweepLook(Way(**way))
        only = expand(nodelist) if nodelist else None
    except SweepError as error:
        raise click.UsageError(str(error)) from error
    store = Store(state_dir or state_dir_here(settings))
    requalifier = Requalifier(
        RequalifyScontrol(settings.drain.scontrol or "", timeout_s=30),
        look,
        store,
        rules,
        sweep_checks=_sweep_checks(),
        only=only,
        dry_run=dry_run or settings.dry_run or refused,
    )
    interval = interval_s if watch else None
    return _run(requalifier, store, rules, interval, settings, as_json=as_json)


def _run(
    requalifier: Any, store: Any, rules: Any, interval_s: float | None, settings: Config,
    *, as_json: bool,
) -> int:  # fmt: skip
    """One round, or rounds until a signal."""
    from slurm_integration.requalify.round import Round, SlurmError
    from slurm_integration.requalify.store import StoreError
    from slurm_integration.requalify.watch import stop_on_signals, watch
    from slurm_integration.requalify.words import as_text

    failed = False

    def tell(done: Round) -> None:
        nonlocal failed
        failed = any(one.what == "failed" for one in done.done)
        data = msgspec.json.encode(
            {"at": done.at, "done": done.done, "standings": done.standings,
             "foreign": done.foreign, "notes": done.notes,
             "records": {s.node: done.book.of(s.node) for s in done.standings}}
        )  # fmt: skip
        click.echo(data.decode() if as_json else as_text(done, rules))
        for one in done.done:
            if one.what == "resumed":
                note = tell_history(
                    settings, "resume", one.nodes, one.why, outcome="resumed", stage="requalify"
                )
                if note:
                    complain(note)

    def complain(text: str) -> None:
        click.echo(f"flightcheck requalify: {text}", err=True)

    try:
        with store.locked():
            if interval_s is None:
                tell(requalifier.round())
            else:
                with stop_on_signals() as stop:
                    watch(requalifier, interval_s, stop, tell, complain)
    except (SlurmError, StoreError) as error:
        complain(f"nothing was resumed: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    return EXIT_FAILED if failed else 0


def _rules(settings: Config, passes: int | None, spread_s: float | None) -> Any:
    """The site's rules with what the command line says."""
    from slurm_integration.requalify.rules import Rules

    rules = getattr(settings, "requalify", None)
    chosen = {"passes": passes, "spread_s": spread_s}
    given = {name: value for name, value in chosen.items() if value is not None}
    return msgspec.structs.replace(rules or Rules(), **given)


def _sweep_checks() -> frozenset[str]:
    from healthcheck.registry import load_checks

    checks, _ = load_checks()
    return frozenset(name for name, one in checks.items() if "sweep" in one.stages)
