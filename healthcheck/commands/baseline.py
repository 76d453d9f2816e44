"""`flightcheck baseline`: what this node remembers, and saying that it was mended."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from healthcheck.baseline import FILE, accept, load_baseline, save_baseline
from healthcheck.config import CONFIG_PATH, load_config
from healthcheck.host import host_at
from healthcheck.model import Baseline, Event
from healthcheck.report.clean import clean
from healthcheck.runner import state_folder

EX_CANTCREAT = 73
EX_NOPERM = 77
"""sysexits.h. Never one of the exit codes 0 to 3 that are verdicts."""


@click.group("baseline")
def command() -> None:
    """Show what this node remembers, or accept its errors as mended."""


def _options(function: Any) -> Any:
    for option in (
        click.option("--root", metavar="DIR", envvar="FLIGHTCHECK_ROOT", help="Recorded machine."),
        click.option(
            "--config", "config_path", metavar="FILE", envvar="FLIGHTCHECK_CONFIG",
            default=CONFIG_PATH, show_default=True, help="Configuration; it names the folder.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def _open(root: str | None, config_path: str) -> tuple[str, Baseline | None]:
    """The folder of this node's state and what is in it."""
    config, notes, _ = load_config(config_path)
    folder = state_folder(host_at(root), config)
    baseline, note = load_baseline(folder) if os.access(folder, os.R_OK | os.X_OK) else (None, None)
    for told in (*notes, *([note] if note else [])):
        click.echo(told, err=True)
    return folder, baseline


@command.command("show")
@_options
def show(root: str | None, config_path: str) -> int:
    """Print what is remembered: counters that are not zero, and events not yet accepted."""
    folder, baseline = _open(root, config_path)
    denied = _denied(folder, os.R_OK)
    if denied:
        click.echo(denied, err=True)
        return EX_NOPERM
    if baseline is None:
        click.echo(f"{folder}/{FILE}: no baseline yet; the next prolog or health check makes one")
        return 0
    for line in baseline_lines(baseline, f"{folder}/{FILE}"):
        click.echo(line)
    return 0


@command.command("accept")
@click.option("--forget-profile", is_flag=True, help="Also choose the node type anew.")
@_options
def accept_baseline(root: str | None, config_path: str, forget_profile: bool) -> int:
    """Say that this node was mended: older events and counters judge it no more.

    The next look takes fresh counters. Needs root, like the prolog that wrote them.
    """
    folder, baseline = _open(root, config_path)
    denied = _denied(folder, os.W_OK)
    if denied:
        click.echo(denied, err=True)
        return EX_NOPERM
    if baseline is None:
        click.echo(f"{folder}/{FILE}: no baseline yet, so there is nothing to accept")
        return 0
    now = time.time()
    mended = accept(baseline, now)
    if forget_profile:
        import msgspec

        mended = msgspec.structs.replace(mended, profile=None)
    told = save_baseline(folder, mended)
    if told:
        click.echo(told, err=True)
        return EX_CANTCREAT
    for line in accepted_lines(baseline, now):
        click.echo(line)
    if forget_profile and baseline.profile:
        click.echo(f"forgotten: this node was {baseline.profile}")
    return 0


def _denied(folder: str, mode: int) -> str | None:
    """Why the folder may not be used, or None. A folder that is not there yet is no denial."""
    path = f"{folder}/{FILE}"
    if not os.path.exists(folder):
        return None
    if os.access(folder, mode | os.X_OK) and (not os.path.exists(path) or os.access(path, os.R_OK)):
        return None
    return f"{path}: permission denied; run it as root"


def baseline_lines(baseline: Baseline, path: str) -> Iterator[str]:
    """A baseline for a reader, 80 columns wide."""
    yield f"file      {path}"
    yield f"taken     {_moment(baseline.taken_at)}"
    yield f"profile   {baseline.profile or 'none yet'}"
    if baseline.accepted_at:
        yield f"accepted  {_moment(baseline.accepted_at)}: events up to then judge no more"
    if baseline.last_job:
        yield f"last job  {baseline.last_job.job_id}"
    grown = [(key, counter) for key, counter in baseline.counters.items() if counter.value]
    yield f"counters  {len(baseline.counters)}, {len(grown)} of them not zero"
    for key, counter in sorted(grown):
        subject, _, name = key.partition("|")
        yield f"  {clean(subject):<16} {clean(name):<36} {counter.value:>12}"
    events = _judging(baseline)
    yield f"events    {len(baseline.events)}, {len(events)} of them not accepted"
    for event in events:
        yield f"  {_moment(event.at)}  {_event(event)}"[:100]


def accepted_lines(baseline: Baseline, now: float) -> Iterator[str]:
    """What an operator has just accepted."""
    events = _judging(baseline)
    grown = sum(bool(counter.value) for counter in baseline.counters.values())
    yield f"accepted at {_moment(now)}:"
    yield f"  events up to now judge this node no more, {len(events)} remembered ones among them"
    kinds = Counter(_event(event, short=True) for event in events)
    for what, count in kinds.most_common():
        yield f"    {count} × {what}"
    yield f"  {len(baseline.counters)} counters ({grown} not zero) begin anew at the next look"


def _judging(baseline: Baseline) -> list[Event]:
    return [event for event in baseline.events if event.at > baseline.accepted_at]


def _event(event: Event, *, short: bool = False) -> str:
    code = f" {event.code}" if event.code is not None else ""
    count = f" ({event.count} times)" if event.count > 1 else ""
    text = f"{event.kind}{code} {event.subject}".rstrip()
    if not short:
        text += f"{count} {event.message}".rstrip()
    return clean(text)


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else "never"
