"""Reading signature files, strictly: a bad one is refused with its file, line and what is wrong."""

import os
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from epilog.model import Role
from epilog.signatures.literals import MIN_LENGTH, required_literals
from epilog.signatures.signature import RECORDS, Advice, Catalogue, Signature, Verdict

FOLDER = os.path.dirname(os.path.abspath(__file__))
CATEGORIES = ("hardware", "network", "infrastructure", "scheduler", "user", "unknown")
SHORTEST_TRIGGER = 7
"""Shorter literals slow the whole search down: 2 instead of 5 GB/s."""

_REQUIRED = ("id", "pattern", "source", "example")
_OPTIONAL = frozenset({
    "role", "class", "expect", "triggers", "unless", "priority", "by", "record", "extends",
    "evidence", "context", "after_traceback",
})  # fmt: skip
_KINDS: dict[str, tuple[type, str]] = {
    "id": (str, "a text"),
    "pattern": (str, "a text"),
    "source": (str, "a text"),
    "example": (str, "a text"),
    "role": (str, "a text"),
    "class": (str, "a text"),
    "record": (str, "a text"),
    "expect": (dict, "a table of texts"),
    "by": (dict, "a table of texts"),
    "triggers": (list, "a list of texts"),
    "unless": (list, "a list of texts"),
    "extends": (list, "a list of texts"),
    "priority": (int, "a whole number"),
    "evidence": (bool, "true or false"),
    "context": (bool, "true or false"),
    "after_traceback": (bool, "true or false"),
}
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEADER = re.compile(r"^\s*\[\[(signature|advice)\]\]", re.MULTILINE)


class SignatureError(ValueError):
    """A signature file that cannot be used. The text says where, what was expected and found."""


class _Entry:
    """One table of a file, with what an error about it must say."""

    def __init__(self, path: str, line: int, table: dict[str, Any]) -> None:
        self.path, self.line, self.table = path, line, table

    def error(self, expected: str, found: object) -> SignatureError:
        name = self.table.get("id", "without id")
        return SignatureError(
            f"{self.path}:{self.line}: signature {name}: expected {expected}, found {found!r}"
        )


def load(folders: tuple[str, ...] = (FOLDER,)) -> Catalogue:
    """Read every *.toml of the folders, in order of name. Raises SignatureError, OSError.

    A site may add folders of its own; classes.toml and advice.toml may lie in any of them.
    """
    classes: set[str] = set()
    signatures: list[_Entry] = []
    advice: list[_Entry] = []
    for path in _files(folders):
        data = _parse(path)
        lines = data.pop("__lines__")
        classes |= _classes(path, data.pop("classes", []))
        for kind, into in (("signature", signatures), ("advice", advice)):
            for line, table in zip(lines[kind], data.pop(kind, []), strict=True):
                into.append(_Entry(path, line, table))
        if data:
            raise SignatureError(
                f"{path}: expected classes, [[signature]] or [[advice]], found {sorted(data)}"
            )
    built = tuple(_signature(entry, frozenset(classes)) for entry in signatures)
    _check_together(signatures, built)
    return Catalogue(built, frozenset(classes), tuple(_advice(entry) for entry in advice))


def _files(folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".toml"):
                yield os.path.join(folder, name)


def _parse(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SignatureError(f"{path}: expected TOML, found: {error}") from error
    lines: dict[str, list[int]] = {"signature": [], "advice": []}
    number, seen = 1, 0
    for match in _HEADER.finditer(text):
        number += text.count("\n", seen, match.end())
        seen = match.end()
        lines[match.group(1)].append(number)
    for kind, found in lines.items():
        tables = data.get(kind, [])
        if not isinstance(tables, list) or len(tables) != len(found):
            raise SignatureError(f"{path}: expected [[{kind}]] headers, each on a line of its own")
    data["__lines__"] = lines
    return data


def _classes(path: str, given: object) -> set[str]:
    if not isinstance(given, list):
        raise SignatureError(f"{path}: classes: expected a list of texts, found {given!r}")
    names = {str(name) for name in given}
    for name in sorted(names):
        category, _, rest = name.partition("/")
        if category not in CATEGORIES or not _ID.fullmatch(rest):
            raise SignatureError(
                f"{path}: classes: expected category/name with a category of {CATEGORIES}, "
                f"found {name!r}"
            )
    return names


def _check_kinds(entry: _Entry, required: tuple[str, ...], optional: frozenset[str]) -> None:
    for key in required:
        if not entry.table.get(key):
            raise entry.error(f"the key {key}", sorted(entry.table))
    for key, value in entry.table.items():
        if key not in required and key not in optional:
            raise entry.error(f"only the keys {sorted((*required, *optional))}", key)
        kind, words = _KINDS[key]
        if type(value) is not kind:
            raise entry.error(f"{key} = {words}", value)
        inner = list(value.values()) if isinstance(value, dict) else value
        if isinstance(inner, list) and not all(isinstance(item, str) for item in inner):
            raise entry.error(f"{key} = {words}", value)
    if not _ID.fullmatch(entry.table["id"]):
        raise entry.error("id = lower-case words joined by -", entry.table["id"])


def _signature(entry: _Entry, classes: frozenset[str]) -> Signature:
    _check_kinds(entry, _REQUIRED, _OPTIONAL)
    table = entry.table
    record, extends = table.get("record", ""), tuple(table.get("extends", ()))
    evidence = table.get("evidence", not extends)
    if record and record not in RECORDS:
        raise entry.error(f"record = one of {RECORDS}", record)
    by = dict(table.get("by", {}))
    by_field = by.pop("field", "")
    if by and not by_field:
        raise entry.error('by.field = "the name of a group"', by)
    verdict = None
    if evidence:
        verdict = _verdict(entry, f"{table.get('role', '')} {table.get('class', '')}", classes)
    elif not record and not extends:
        raise entry.error("a record or extends where evidence = false", table)
    return Signature(
        id=table["id"],
        subject=os.path.basename(entry.path).removesuffix(".toml"),
        pattern=table["pattern"],
        source=table["source"],
        example=table["example"],
        verdict=verdict,
        expect=table.get("expect", {}),
        triggers=_triggers(entry),
        unless=tuple(table.get("unless", ())),
        priority=table.get("priority", 50),
        by_field=by_field,
        by={key: _verdict(entry, value, classes) for key, value in by.items()},
        record=record,
        extends=extends,
        evidence=evidence,
        context=table.get("context", False),
        after_traceback=table.get("after_traceback", False),
    )


def _verdict(entry: _Entry, text: str, classes: frozenset[str]) -> Verdict:
    role, _, klass = text.partition(" ")
    if role not in tuple(Role):
        raise entry.error(f"a role of {[str(r) for r in Role]}", role)
    if klass not in classes:
        raise entry.error("a class that classes.toml lists", klass)
    return Verdict(Role(role), klass)


def _triggers(entry: _Entry) -> tuple[str, ...]:
    table = entry.table
    if table.get("after_traceback", False):
        return ()
    given = table.get("triggers")
    if given is not None:
        for trigger in given:
            if len(trigger.encode()) < SHORTEST_TRIGGER or "\n" in trigger:
                raise entry.error(
                    f"triggers of {SHORTEST_TRIGGER} bytes or more on one line", trigger
                )
        return tuple(given)
    found = required_literals(table["pattern"])
    if found is None:
        raise entry.error(
            f"a pattern with a fixed text of {MIN_LENGTH} characters or more in every "
            "alternative, outside groups and repetitions, or triggers = [literals]",
            table["pattern"],
        )
    return found


def _advice(entry: _Entry) -> Advice:
    _check_kinds(entry, _REQUIRED, frozenset({"triggers"}))
    table = entry.table
    return Advice(
        table["id"], table["pattern"], table["source"], table["example"], _triggers(entry)
    )


def _check_together(entries: list[_Entry], built: tuple[Signature, ...]) -> None:
    seen: dict[str, _Entry] = {}
    for entry, signature in zip(entries, built, strict=True):
        if signature.id in seen:
            raise entry.error("an id of its own", f"{signature.id} of {seen[signature.id].path}")
        seen[signature.id] = entry
    for entry, signature in zip(entries, built, strict=True):
        for other in signature.extends:
            if other not in seen:
                raise entry.error("extends = ids that exist", other)


def check_patterns(catalogue: Catalogue) -> list[str]:
    """What is wrong with the expressions, the examples and the expected fields; [] if nothing.

    Compiling every expression takes too long for each epilog, so a test and `make lint` do it.
    """
    wrong = []
    for signature in catalogue.signatures:
        for pattern in (signature.pattern, *signature.unless):
            try:
                re.compile(pattern)
            except re.error as error:
                wrong.append(f"{signature.id}: expected a Python expression, found {error}")
        groups = set(re.findall(r"\(\?P<(\w+)>", signature.pattern))
        if signature.by_field and signature.by_field not in groups:
            wrong.append(f"{signature.id}: by.field {signature.by_field} is no group of pattern")
        if unknown := set(signature.expect) - groups:
            wrong.append(f"{signature.id}: expect names {sorted(unknown)}, which are no groups")
    return wrong
