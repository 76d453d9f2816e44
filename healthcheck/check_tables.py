"""What is wrong with the tables of checks in a configuration or a profile.

Loaded only when one is refused; the happy path has converted the values and needs no words.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from healthcheck.config import Config
from healthcheck.profile_file import HEAD_KEYS, Figure
from healthcheck.registry import Check
from healthcheck.strict_toml import Document, Refused, read_toml
from healthcheck.toml_faults import (
    Fault,
    faults_of,
    field_faults,
    found,
    notes,
    together_faults,
    unknown,
)


def config_faults(
    config: Config, path: str, checks: Mapping[str, Check], *, lenient: bool = False
) -> list[str]:
    """Notes for `[checks.NAME]` tables. `lenient`: a name nobody knows may be a broken check's."""
    faults: list[Fault] = []
    for name, settings in config.checks.items():
        declared = checks.get(name)
        if declared is None:
            if not lenient:
                faults.append(unknown(("checks", name), checks, "check"))
            continue
        faults += _limit_faults(settings.limits, declared.limits, ("checks", name, "limits"))
    return list(notes(path, _text(path), faults))


def table_faults(
    path: str, tables: Mapping[str, tuple[dict[str, Any], type[msgspec.Struct]]]
) -> list[str]:
    """Notes for whole tables of a configuration, each with the struct that it must convert to."""
    faults: list[Fault] = []
    for name, (values, kind) in tables.items():
        faults += faults_of(values, kind, (name,))
    return list(notes(path, _text(path), faults))


def _text(path: str) -> str:
    """The file again, to find lines in; nothing where it cannot be read."""
    try:
        return read_toml(path, private=True).text
    except (Refused, FileNotFoundError):
        return ""


def _limit_faults(
    limits: dict[str, Any], kind: type[msgspec.Struct], key: tuple[str, ...]
) -> list[Fault]:
    """Faults of a site's limits, which the profile may have to complete."""
    faults = list(field_faults(limits, kind, key))
    required = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
    if not faults and limits and all(name in limits for name in required):
        faults = list(together_faults(limits, kind, key))
    return faults


def figure_faults(document: Document, tables: dict[str, Any], otherwise: str) -> tuple[str, ...]:
    """Notes for what is no table of figures, whatever the check."""
    faults: list[Fault] = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            faults.append(unknown((name,), HEAD_KEYS))
            continue
        for field, figure in table.items():
            faults += _figure_faults((name, field), figure)
    return notes(document.path, document.text, faults) or (f"{document.path}: {otherwise}",)


def _figure_faults(key: tuple[str, str], figure: Any) -> Iterator[Fault]:
    if isinstance(figure, dict):
        yield from faults_of(figure, Figure, key)
        return
    form = f'{key[1]} = {{ value = {found(figure)}, source = "where it comes from" }}'
    yield Fault(key, "a figure with its source", found(figure), f"write {form}")


def profile_faults(
    documents: list[Document],
    tables: dict[str, dict[str, Figure]],
    checks: Mapping[str, Check],
    *,
    lenient: bool = False,
) -> list[str]:
    """Notes for a profile whose tables are not those of the checks.

    Each file is searched for its own faults; what only shows once they are put together is laid
    at the first file that has the table.
    """
    told: list[str] = []
    for document in documents:
        faults = list(_own_faults(document, checks, lenient))
        told += notes(document.path, document.text, faults)
    if told:
        return told
    for name, figures in tables.items():
        declared = checks.get(name)
        if declared is None:
            continue
        values = {field: figure.value for field, figure in figures.items()}
        faults = list(faults_of(values, declared.limits, (name,)))
        owner = next((d for d in documents if name in d.tree), documents[0])
        told += notes(owner.path, owner.text, faults)
    return told


def _own_faults(document: Document, checks: Mapping[str, Check], lenient: bool) -> Iterator[Fault]:
    for name, table in document.tree.items():
        if name in HEAD_KEYS:
            continue
        declared = checks.get(name)
        if declared is None:
            if not lenient:
                yield unknown((name,), [*checks, *HEAD_KEYS], "check")
            continue
        values = {field: figure["value"] for field, figure in table.items()}
        yield from field_faults(values, declared.limits, (name,))


def contradictions(config: Config, profile_name: str, figures: Any, declared: Check) -> str | None:
    """Why the site's limits do not fit together with a profile's, or None."""
    settings = config.checks[declared.name]
    values = {field: figure.value for field, figure in figures.items()} | settings.limits
    try:
        msgspec.convert(values, declared.limits)
    except msgspec.ValidationError as error:
        why = str(error).partition(" - at `")[0]
        return f"checks.{declared.name}.limits: with profile {profile_name}: {why}"
    return None
