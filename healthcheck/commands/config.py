"""`flightcheck config`: is the configuration right, and what is in force?"""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from healthcheck.config import CONFIG_PATH, SECTIONS, Config, load_config, section
from healthcheck.profile import BUILTIN_DIR, load_profile, profile_files
from healthcheck.registry import load_checks
from healthcheck.strict_toml import Refused, read_toml
from healthcheck.toml_lines import line_numbers
from healthcheck.toml_text import key_text, value_text

EX_DATAERR = 65
"""sysexits.h: the file is wrong. Never one of the exit codes 0 to 3 that are verdicts."""


@click.group("config")
def command() -> None:
    """Check the configuration, or show what is in force."""


def _file_argument(function: Any) -> Any:
    return click.argument(
        "path", metavar="[FILE]", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH
    )(function)


@command.command("check")
@_file_argument
def check(path: str) -> int:
    """Say whether FILE (default: the one in /etc) would be accepted.

    Every fault is told with its line, its key, what was expected and what was found. Exit code:
    0 accepted, 65 refused.
    """
    config, notes, refused = load_config(path)
    if not refused:
        notes += _against_profiles(config, path)
    for note in notes:
        click.echo(note, err=True)
    if notes:
        return EX_DATAERR
    if not _exists(path):
        click.echo(f"{path}: not there; the built-in defaults are in force")
        return 0
    mode = "dry run: nothing is drained" if config.dry_run else "failing nodes are drained"
    click.echo(f"{path}: accepted ({mode})")
    return 0


@command.command("show")
@_file_argument
def show(path: str) -> int:
    """Print the configuration in force as TOML, each value with where it comes from.

    Exit code: 0, or 65 where the file is refused and the defaults are in force.
    """
    config, notes, refused = load_config(path)
    for note in notes:
        click.echo(note, err=True)
    lines = {}
    if not refused and _exists(path):
        lines = line_numbers(read_toml(path, private=True).text)
    click.echo("\n".join(_shown(config, path, lines)))
    return EX_DATAERR if refused else 0


def _exists(path: str) -> bool:
    try:
        read_toml(path, private=True)
    except FileNotFoundError:
        return False
    except Refused:
        return True
    return True


def _against_profiles(config: Config, path: str) -> list[str]:
    """Faults that only show with a profile: its name, and limits that don't fit its figures."""
    from healthcheck.check_tables import contradictions

    folders = [config.profile_dir, BUILTIN_DIR]
    names = [config.profile] if config.profile != "auto" else list(profile_files(folders))
    checks, _ = load_checks()
    told: list[str] = []
    for name in names:
        try:
            profile = load_profile(name, folders)
        except Refused as refusal:
            told += refusal.notes
            continue
        for table, settings in config.checks.items():
            figures = profile.checks.get(table)
            if settings.limits and figures and table in checks:
                why = contradictions(config, name, figures, checks[table])
                told += [f"{path}: {why}"] if why else []
    return told


def _shown(config: Config, path: str, lines: dict[tuple[str, ...], int]) -> Iterator[str]:
    """The configuration as TOML lines, origins as comments in one column."""
    fields = config.__struct_fields__
    for field in fields:
        if field not in ("drain", "checks", *SECTIONS):
            yield _assignment((field,), getattr(config, field), path, lines)
    yield from _table(("drain",), config.drain, path, lines)
    for name in SECTIONS:
        yield from _table((name,), section(config, name), path, lines)
    for name, settings in config.checks.items():
        yield from _table(("checks", name), settings, path, lines)


def _table(
    key: tuple[str, ...], table: msgspec.Struct, path: str, lines: dict[tuple[str, ...], int]
) -> Iterator[str]:
    yield ""
    yield f"[{'.'.join(key_text(part) for part in key)}]"
    for field in table.__struct_fields__:
        value = getattr(table, field)
        if (field == "limits" and not value) or isinstance(value, msgspec.Struct):
            continue
        yield _assignment((*key, field), value, path, lines)
    for field in table.__struct_fields__:
        value = getattr(table, field)
        if isinstance(value, msgspec.Struct):
            yield from _table((*key, field), value, path, lines)


def _assignment(
    key: tuple[str, ...], value: Any, path: str, lines: dict[tuple[str, ...], int]
) -> str:
    line = lines.get(key)
    origin = f"{path}:{line}" if line else "default"
    if value is None:
        return f"{'# ' + key[-1] + ' is not set':<40}  # {origin}"
    return f"{key[-1] + ' = ' + value_text(value):<40}  # {origin}"
