"""Saying what is wrong with a TOML file: `FILE:LINE: KEY: expected …, found …; do …`.

Loaded only when a file is refused. The rules are the structs' own types and constraints: each key
is converted by itself, so that one reading names every fault and not just the first.
"""

import types
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from healthcheck.strict_toml import Document
from healthcheck.toml_lines import line_numbers, line_of

Key = tuple[str | int, ...]
MAX_NOTES = 20


class Fault(NamedTuple):
    """One thing wrong at one key. `advice` is what to do about it."""

    key: Key
    expected: str
    found: str
    advice: str = "correct it"


def notes(path: str, text: str, faults: Iterable[Fault]) -> tuple[str, ...]:
    """Faults as notes, in the order of their lines."""
    lines = line_numbers(text)
    placed = [(line_of(lines, fault.key), fault) for fault in faults]
    placed.sort(key=lambda pair: pair[0] or 0)
    told = [
        f"{path}{f':{line}' if line else ''}: {key_name(fault.key)}: "
        f"expected {fault.expected}, found {fault.found}; {fault.advice}"
        for line, fault in placed
    ]
    if len(told) > MAX_NOTES:
        told[MAX_NOTES:] = [f"{path}: and {len(told) - MAX_NOTES} more faults of this kind"]
    return tuple(told)


def key_name(key: Key) -> str:
    """A key as TOML writes it: `checks.gpu-ecc.limits`, `mounts[1]`."""
    name = ""
    for part in key:
        if isinstance(part, int):
            name += f"[{part}]"
            continue
        plain = part.replace("-", "").replace("_", "")
        shown = part if plain.isascii() and plain.isalnum() else found(part)
        name += f".{shown}" if name else shown
    return name or "the file"


def syntax_note(path: str, data: bytes, error: Exception) -> str:
    """The note for bytes that are no TOML at all."""
    if isinstance(error, UnicodeDecodeError):
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        return f"{path}:{line}: expected UTF-8 text, found the byte 0x{byte:02x}; save it as UTF-8"
    if isinstance(error, RecursionError):
        return f"{path}: expected TOML, found brackets nested too deeply; correct it"
    message, _, place = str(error).partition(" (at ")
    line_text = place.removeprefix("line ").partition(",")[0].rstrip(")")
    line = int(line_text) if line_text.isdecimal() else data.count(b"\n") + 1
    if message.startswith("A line of more"):
        line = 1 + max(range(data.count(b"\n") + 1), key=[*map(len, data.split(b"\n"))].__getitem__)
    why = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)[:200]
    if data.startswith(b"\xef\xbb\xbf"):
        why = "a byte order mark"
    return f"{path}:{line}: expected valid TOML, found: {why}; correct this line"


def not_finite(path: str, text: str, tree: Any) -> tuple[str, ...]:
    """Notes for every nan and inf: no limit can be compared with them."""

    def walk(value: Any, key: Key) -> Iterator[Fault]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from walk(inner, (*key, name))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from walk(inner, (*key, index))
        elif isinstance(value, float) and value - value != 0:
            yield Fault(key, "a finite number", str(value), "give a figure")

    return notes(path, text, walk(tree, ()))


def struct_notes(document: Document, kind: Any, otherwise: str) -> tuple[str, ...]:
    """Notes for a document that is not a `kind`; `otherwise` where no key can be blamed."""
    faults = list(faults_of(document.tree, kind, ()))
    return notes(document.path, document.text, faults) or (f"{document.path}: {otherwise}",)


def faults_of(value: Any, kind: Any, key: Key) -> Iterator[Fault]:
    """Every fault of `value` as a `kind`, each at the deepest key that can be blamed."""
    base = _bare(kind)
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        yield from _struct_faults(value, base, key)
    elif get_origin(base) is dict and isinstance(value, dict):
        for name, inner in value.items():
            yield from faults_of(inner, get_args(base)[1], (*key, name))
    elif get_origin(base) in (tuple, list) and isinstance(value, list):
        inner_kind = get_args(base)[0]
        for index, inner in enumerate(value):
            yield from faults_of(inner, inner_kind, (*key, index))
    else:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            yield Fault(key, describe(kind), found(value), _advice(value, kind))


def _struct_faults(value: Any, kind: type[msgspec.Struct], key: Key) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield Fault(key, "a table", found(value), f"write [{key_name(key)}] and its keys below")
        return
    faults = list(field_faults(value, kind, key))
    fields = msgspec.structs.fields(kind)
    faults += [
        Fault(key, f"{field.name} to be set", "no such key", f"add {field.name}")
        for field in fields
        if field.required and field.encode_name not in value
    ]
    yield from faults
    if not faults:
        yield from together_faults(value, kind, key)


def together_faults(value: dict[str, Any], kind: type[msgspec.Struct], key: Key) -> Iterator[Fault]:
    """The fault of values that are each possible and contradict each other."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        yield Fault(key, "values that fit together", str(error).partition(" - at `")[0])


def field_faults(
    value: dict[str, Any], kind: type[msgspec.Struct], key: Key, also: Iterable[str] = ()
) -> Iterator[Fault]:
    """Faults of the keys that are there, whether or not others are missing."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, inner in value.items():
        if name in fields:
            yield from faults_of(inner, fields[name].type, (*key, name))
        else:
            yield unknown((*key, name), [*fields, *also])


def unknown(key: Key, known: Iterable[str], what: str = "key") -> Fault:
    """The fault of a name that nobody knows, with the closest one that somebody does."""
    from difflib import get_close_matches

    name, names = str(key[-1]), sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        advice = f"did you mean {close[0]}?"
    elif names:
        advice = "known are " + ", ".join(names)
    else:
        advice = "there is nothing to set here; remove it"
    return Fault(key, f"a known {what}", found(name), advice)


def found(value: Any) -> str:
    """A value as a reader recognises it, short and free of control characters."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        shown = ascii(value) if not value.isprintable() else repr(value)
        shown = shown.replace("\\x00", "\\u0000")
        return shown if len(shown) <= 60 else f"{shown[:56]}…'"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    return str(value)


def _bare(kind: Any) -> Any:
    """A type without Annotated and without `| None`."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        inner = [arg for arg in get_args(kind) if arg is not type(None)]
        return _bare(inner[0]) if len(inner) == 1 else kind
    return kind


_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    bool: "true or false",
    date: "a date such as 2030-12-31",
}


def describe(kind: Any) -> str:
    """A type and its constraints in words."""
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        said = [m.description for m in metas if isinstance(m, msgspec.Meta) and m.description]
        if said:
            return str(said[0])
        bounds = [b for m in metas if isinstance(m, msgspec.Meta) for b in _bounds(m)]
        return " ".join([describe(inner), " and ".join(bounds)]).strip()
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(describe(arg) for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f"'{arg}'" for arg in get_args(kind))
    if get_origin(kind) in (tuple, list):
        inner = describe(get_args(kind)[0]).removeprefix("a ").replace("text in", "texts in")
        return f"a list of {inner}"
    if get_origin(kind) is dict:
        return "a table"
    return _WORDS.get(kind, str(getattr(kind, "__name__", kind)))


def _bounds(meta: msgspec.Meta) -> Iterator[str]:
    pairs = (("of at least", meta.ge), ("above", meta.gt), ("at most", meta.le), ("below", meta.lt))
    for word, limit in pairs:
        if limit is not None:
            yield f"{word} {limit:g}"
    if meta.min_length is not None:
        yield f"of at least {meta.min_length} entries"
    if meta.pattern is not None:
        yield f"matching {meta.pattern}"


def _advice(value: Any, kind: Any) -> str:
    base = _bare(kind)
    if base in (int, float, bool) and isinstance(value, str):
        return "remove the quotes"
    if base is bool:
        return "write true or false, without quotes"
    if base is int and isinstance(value, float):
        return "give a whole number"
    if get_origin(base) in (tuple, list) and not isinstance(value, dict):
        return "put it in [ ]"
    return "correct it"
