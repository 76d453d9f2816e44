"""`flightcheck check`: look at this node and say whether it may fly."""

import os
import sys
from collections.abc import Callable

import click

from healthcheck.cli import job_of_environment
from healthcheck.config import CONFIG_PATH, load_config
from healthcheck.host import MAX_TEXT, host_at
from healthcheck.main import take_early
from healthcheck.model import Report, Snapshot
from healthcheck.model.snapshot import decode_snapshot, encode_snapshot
from healthcheck.registry import STAGES, load_checks
from healthcheck.runner import Request, Result, replay, run

MAX_SNAPSHOT = 1024 * MAX_TEXT


@click.command("check")
@click.option(
    "--stage",
    type=click.Choice(STAGES),
    default="sweep",
    show_default=True,
    help="Which checks: those of a prolog, an epilog, a health program or a sweep.",
)
@click.option("--profile", metavar="NAME", help="Node type (default: by the hardware seen).")
@click.option(
    "--config",
    metavar="FILE",
    envvar="FLIGHTCHECK_CONFIG",
    default=CONFIG_PATH,
    show_default=True,
    help="Configuration.",
)
@click.option(
    "--root",
    metavar="DIR",
    envvar="FLIGHTCHECK_ROOT",
    help="A folder that stands for the machine (sys/, proc/, dev/kmsg, …).",
)
@click.option("--only", metavar="A,B", default="", help="Only these checks.")
@click.option("--skip", metavar="A,B", default="", help="Not these checks.")
@click.option("--json", "form", flag_value="json", help="JSON on one line.")
@click.option("--nagios", "form", flag_value="nagios", help="A Nagios plugin's output.")
@click.option(
    "--prometheus",
    "form",
    flag_value="prometheus",
    help="Metrics for node_exporter's textfile collector.",
)
@click.option("--facts", is_flag=True, help="With --json: add what a fleet is compared by.")
@click.option("--snapshot", "whole", is_flag=True, help="With --json: add the whole snapshot.")
@click.option("--save", metavar="FILE", help="Write the snapshot, to be judged again anywhere.")
@click.option("--replay", "replayed", metavar="FILE", help="Judge a saved snapshot.")
@click.option("-v", "--verbose", is_flag=True, help="List passed checks too.")
def command(
    stage: str, profile: str | None, config: str, root: str | None, only: str, skip: str,
    form: str | None, facts: bool, whole: bool, save: str | None, replayed: str | None,
    verbose: bool,
) -> int:  # fmt: skip
    """Look at this node and say whether a job may start here.

    Drains nothing, changes nothing. Exit code: 0 go, 1 degraded, 2 no-go, 3 unknown.
    """
    if config != CONFIG_PATH and not os.path.exists(config):
        raise click.UsageError(f"--config {config}: no such file")
    settings, notes, refused = load_config(config)
    snapshot = _load(replayed) if replayed else None
    request = Request(
        host=host_at(root),
        stage=stage,
        config=settings,
        notes=tuple(notes),
        profile=profile,
        job=job_of_environment(dict(os.environ)) if stage in ("prolog", "epilog") else None,
        only=_names(only, "--only"),
        skip=_names(skip, "--skip"),
        refused=refused,
        remember=False,
    )
    result = replay(snapshot, request) if snapshot else run(request, take_early(root, stage))
    if save:
        _save(save, result.snapshot)
    if form == "json" and (facts or whole):
        click.echo(_extended(result, facts=facts, whole=whole))
    else:
        click.echo(_render(result, form, verbose))
    return result.report.verdict.exit_code


def _names(text: str, option: str) -> frozenset[str]:
    """Check names out of a comma list; an unknown one is an error, not an empty run."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not names:
        return names
    known, _ = load_checks()
    unknown = sorted(names - known.keys())
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], known, n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise click.UsageError(
            f"{option}: no check is called {unknown[0]!r}.{hint} "
            "`flightcheck explain` lists them all."
        )
    return names


def _load(path: str) -> Snapshot:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SNAPSHOT)
        return decode_snapshot(data)
    except OSError as error:
        raise click.UsageError(f"--replay {path}: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"--replay {path}: {error}") from error


def _save(path: str, snapshot: Snapshot) -> None:
    try:
        with open(path, "wb") as file:
            file.write(encode_snapshot(snapshot))
    except OSError as error:
        raise click.UsageError(f"--save {path}: {error.strerror}") from error


def _render(result: Result, form: str | None, verbose: bool) -> str:
    report = result.report
    if form is None:
        from healthcheck.report.text import to_text

        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        return to_text(report, colour=colour, verbose=verbose)
    return _writer(form)(report)


def _extended(result: Result, *, facts: bool, whole: bool) -> bytes:
    """The report's JSON with more fields, for the sweep."""
    import msgspec

    from healthcheck import __version__
    from healthcheck.report.json import to_data

    data = {**to_data(result.report), "version": __version__}
    if facts:
        from healthcheck.report.facts import facts_of

        data["facts"] = facts_of(result.snapshot)
    if whole:
        data["snapshot"] = result.snapshot
    return msgspec.json.encode(data)


def _writer(form: str) -> Callable[[Report], str]:
    """The writer of a form; each is imported only when asked for."""
    if form == "json":
        from healthcheck.report.json import to_json

        return to_json
    if form == "nagios":
        from healthcheck.report.nagios import to_nagios

        return to_nagios
    from healthcheck.report.prometheus import to_prometheus

    return to_prometheus
