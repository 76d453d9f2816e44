"""The checks that exist: declared by a decorator, found by listing a directory.

A check is a pure function from facts and limits to findings. Dropping a file into
`healthcheck/checks/` is all it takes; a site's own package adds checks through the entry-point
group `flightcheck.checks`, each entry naming a module to import.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import msgspec

from healthcheck.model import Finding, Snapshot

STAGES = ("prolog", "epilog", "health", "sweep")
ENTRY_POINT_GROUP = "flightcheck.checks"

Rule = Callable[..., Iterator[Finding]]


class NoLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For checks that have nothing to set."""


class Check(msgspec.Struct, frozen=True):
    """A declared check. `needs` are fields of the snapshot that must have been measured.

    `limits` is a struct type; a check whose limits have fields without defaults applies only to
    node types whose profile sets them. `doc` states the healthy condition.
    """

    name: str
    rule: Rule
    needs: tuple[str, ...]
    stages: tuple[str, ...]
    limits: type[msgspec.Struct]
    doc: str
    source: str | None
    module: str

    def needs_profile(self) -> bool:
        """Whether the profile must set limits before this check applies."""
        return any(field.required for field in msgspec.structs.fields(self.limits))

    def judge(self, node: Snapshot, limits: msgspec.Struct) -> tuple[Finding, ...]:
        """All findings of this check."""
        return tuple(self.rule(node, limits))


class DuplicateCheckError(Exception):
    """Two checks carry one name."""


_checks: dict[str, Check] = {}
_broken: dict[str, str] = {}
_loaded = False


def check(
    name: str,
    *,
    needs: Iterable[str] = (),
    stages: Iterable[str] = STAGES,
    limits: type[msgspec.Struct] = NoLimits,
    source: str | None = None,
) -> Callable[[Rule], Rule]:
    """Declare a check. Its function takes (node, limits) and yields findings.

    `source` is where the rule comes from; a finding that names the limit it passed gets the
    profile's source for that figure instead.
    """

    def declare(rule: Rule) -> Rule:
        known = _checks.get(name)
        if known is not None and known.module != rule.__module__:
            raise DuplicateCheckError(
                f"check {name!r} is declared in {known.module} and {rule.__module__}"
            )
        _checks[name] = Check(
            name=name,
            rule=rule,
            needs=tuple(needs),
            stages=tuple(stages),
            limits=limits,
            doc=(rule.__doc__ or "").strip(),
            source=source,
            module=rule.__module__,
        )
        return rule

    return declare


def load_checks() -> tuple[dict[str, Check], dict[str, str]]:
    """All checks by name, and the modules that would not load with the reason.

    A module that does not import never hides the others; the runner reports it as an error.
    """
    global _loaded  # noqa: PLW0603 - the folder is listed once a process
    if _loaded:
        return _checks, _broken
    _loaded = True
    package = import_module("healthcheck.checks")
    folder = os.path.dirname(package.__file__ or "")
    names = sorted(
        f"healthcheck.checks.{entry[:-3]}"
        for entry in os.listdir(folder)
        if entry.endswith(".py") and not entry.startswith("_")
    )
    for module in [*names, *_foreign_modules()]:
        try:
            import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - broken in whatever way
            _broken[module] = f"{type(error).__name__}: {error}"
    return _checks, _broken


def _foreign_modules() -> list[str]:
    """Modules that other installed distributions offer.

    importlib.metadata costs 40 ms to import, so it is asked only where some distribution's
    entry_points.txt mentions our group.
    """
    if not any(_mentions_group(folder) for folder in sys.path if folder):
        return []
    from importlib.metadata import entry_points

    return sorted(point.value for point in entry_points(group=ENTRY_POINT_GROUP))


def _mentions_group(folder: str) -> bool:
    try:
        entries = [e for e in os.listdir(folder) if e.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    group = ENTRY_POINT_GROUP.encode()
    for entry in entries:
        try:
            with open(f"{folder}/{entry}/entry_points.txt", "rb") as file:
                if group in file.read(65536):
                    return True
        except OSError:
            continue
    return False


def limits_of(declared: Check, values: dict[str, Any]) -> msgspec.Struct:
    """The check's limits from plain values. Raises msgspec.ValidationError on a wrong one."""
    return msgspec.convert(values, declared.limits)
