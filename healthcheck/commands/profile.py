"""`flightcheck profile`: the node types that are known, and writing down a new one."""

import os
from typing import Any

import click
import msgspec

from healthcheck.config import CONFIG_PATH, Config, Name, load_config
from healthcheck.host import host_at
from healthcheck.model import Severity, Snapshot
from healthcheck.model.snapshot import decode_snapshot
from healthcheck.profile import BUILTIN_DIR, Profile, load_profile, profile_files
from healthcheck.strict_toml import Refused, read_bounded
from healthcheck.whole_file import write_whole

EX_DATAERR = 65
EX_CANTCREAT = 73
"""sysexits.h. Never one of the exit codes 0 to 3 that are verdicts."""
MAX_SNAPSHOT = 64 << 20


@click.group("profile")
def command() -> None:
    """List the node types, show one, or learn one from a good node."""


def _config_option(function: Any) -> Any:
    return click.option(
        "--config", "config_path", metavar="FILE", envvar="FLIGHTCHECK_CONFIG",
        default=CONFIG_PATH, show_default=True, help="Configuration; it names the site's folder.",
    )(function)  # fmt: skip


def _settings(path: str) -> tuple[Config, list[str]]:
    """The configuration and the folders of profiles, the site's first."""
    config, notes, _ = load_config(path)
    for note in notes:
        click.echo(note, err=True)
    return config, [config.profile_dir, BUILTIN_DIR]


@command.command("list")
@_config_option
def list_profiles(config_path: str) -> int:
    """List all profiles: name, hardware, and whose it is. Exit code 65 where one is refused."""
    _, folders = _settings(config_path)
    refused = 0
    for name, path in sorted(profile_files(folders).items()):
        try:
            profile = load_profile(name, folders)
        except Refused as refusal:
            refused += 1
            click.echo(f"{name:<14} refused: {path}")
            for note in refusal.notes:
                click.echo(f"  {note}", err=True)
            continue
        for line in _row(profile):
            click.echo(line)
    return EX_DATAERR if refused else 0


def _row(profile: Profile) -> list[str]:
    """One profile on a line of 80 columns, and its file on a second where it is the site's."""
    ids = ",".join(profile.match.pci_device_ids) or "-"
    line = f"{profile.name:<14} {ids:<14} {profile.title}"
    lines = [line if len(line) <= 80 else f"{line[:79]}…"]
    if os.path.dirname(profile.path) != BUILTIN_DIR:
        lines.append(f"{'':<14} {profile.path}")
    return lines


@command.command("show")
@click.argument("name")
@_config_option
def show(name: str, config_path: str) -> int:
    """Print the profile NAME as TOML, after all it extends, each figure with its source.

    What is printed loads again: it is a start for a profile of the site's own. Exit code 65 where
    the profile is refused or does not exist.
    """
    from healthcheck.profile_text import profile_text

    _, folders = _settings(config_path)
    try:
        profile = load_profile(name, folders)
    except Refused as refusal:
        for note in refusal.notes:
            click.echo(note, err=True)
        return EX_DATAERR
    origin = (
        profile.path if os.path.dirname(profile.path) != BUILTIN_DIR else "built into flightcheck"
    )
    click.echo(profile_text(profile, (f"{profile.name}: {origin}",)), nl=False)
    return 0


@command.command("learn")
@click.option("--name", help="Name of the profile (default: of the output file, or of the node).")
@click.option("--output", metavar="FILE", help="Write to NAME.toml (default: standard output).")
@click.option("--root", metavar="DIR", envvar="FLIGHTCHECK_ROOT", help="A recorded machine.")
@click.option("--replay", "replayed", metavar="FILE", help="Learn from a saved snapshot.")
@click.option("--force", is_flag=True, help="Despite failing findings; overwrite FILE.")
@_config_option
def learn(
    name: str | None, output: str | None, root: str | None, replayed: str | None, force: bool,
    config_path: str,
) -> int:  # fmt: skip
    """Write a profile that this node, known to be good, fits exactly.

    Refused (exit code 65) where the node has failing findings. Read the result before it is put
    to use: what it expects, every node of that type must have.
    """
    from healthcheck.learn import learn as learn_profile
    from healthcheck.profile_text import profile_text
    from healthcheck.runner import Request, replay, run

    config, folders = _settings(config_path)
    request = Request(host=host_at(root), stage="sweep", config=config, remember=False)
    result = replay(_load(replayed), request) if replayed else run(request)
    fails = result.report.findings(Severity.FAIL)
    if fails and not force:
        for check, finding in fails:
            click.echo(f"fail {check} {finding.subject}: {finding.message}", err=True)
        click.echo(
            f"{result.report.node} has {len(fails)} failing findings, judged as "
            f"{result.profile.name}, so it is no model for others. Mend it first; where they only "
            "say that the site's hardware is another, repeat with --force.",
            err=True,
        )
        return EX_DATAERR
    if result.snapshot.pci is None and not force:
        problem = result.snapshot.problems.get("pci")
        why = problem.reason if problem else "nobody asked"
        click.echo(
            f"{result.report.node}: the PCI devices were not read ({why}), so the profile would "
            "expect no GPU; run it as root, or repeat with --force",
            err=True,
        )
        return EX_DATAERR
    chosen = name or (_stem(output) if output else result.report.node)
    _check_name(chosen, output)
    profile, left_out = learn_profile(result.snapshot, chosen)
    comments = ["Read before use: what stands here, every node of this type must have."]
    if not profile.match.pci_device_ids:
        comments.append('Never chosen by itself (no GPUs): set profile = "…" in the configuration.')
    comments += [f"Not learned: {why}" for why in left_out]
    return _write(profile_text(profile, tuple(comments)), output, force, folders)


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(".toml")


def _check_name(name: str, output: str | None) -> None:
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        raise click.UsageError(
            f"--name: expected letters, digits and . _ @ : -, found {name!r}"
        ) from error
    if output and os.path.basename(output) != f"{name}.toml":
        raise click.UsageError(
            f"--output: expected a file called {name}.toml (a profile is found by its file's "
            f"name), found {output}"
        )


def _load(path: str) -> Snapshot:
    try:
        return decode_snapshot(read_bounded(path, MAX_SNAPSHOT))
    except FileNotFoundError as error:
        raise click.UsageError(f"--replay {path}: no such file") from error
    except Refused as refusal:
        raise click.UsageError(f"--replay {refusal}") from refusal
    except ValueError as error:
        raise click.UsageError(f"--replay {path}: {error}") from error


def _write(text: str, output: str | None, force: bool, folders: list[str]) -> int:
    """Print it, or put it in place whole; either way only a profile that loads."""
    if output is None:
        click.echo(text, nl=False)
        return 0
    if os.path.lexists(output) and not force:
        click.echo(f"{output} exists; move it away, or overwrite it with --force", err=True)
        return EX_CANTCREAT
    folder = os.path.dirname(os.path.abspath(output))
    try:
        write_whole(os.path.abspath(output), text.encode(), mode=0o644)
    except OSError as error:
        click.echo(f"{output}: {error.strerror}; name a folder that you may write to", err=True)
        return EX_CANTCREAT
    load_profile(_stem(output), [folder, *folders])
    click.echo(f"{output}: written. Next: flightcheck check --profile {_stem(output)}")
    if os.path.realpath(folder) != os.path.realpath(folders[0]):
        click.echo(f"It is used once it lies in {folders[0]}.")
    return 0
