"""Writing TOML: the few kinds of values that configurations and profiles have."""

from datetime import date
from typing import Any

_ESCAPES = {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}


def value_text(value: Any) -> str:
    """A value as TOML. Raises TypeError for what TOML cannot say (None among it)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(_character(c) for c in value)}"'
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int | date):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(inner) for inner in value)}]"
    if isinstance(value, dict):
        pairs = (f"{key_text(key)} = {value_text(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    raise TypeError(f"expected a value that TOML has, found {type(value).__name__}")


def key_text(key: str) -> str:
    """A key as TOML, quoted where it must be."""
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isascii() and plain.isalnum() else value_text(key)


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else f"\\U{ord(char):08x}"
