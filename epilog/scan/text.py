"""Cleaning a matched line: escapes, progress bars, control characters, advice."""

import re

from epilog.signatures import Catalogue

MAX_TEXT = 2000
"""Characters of a line that evidence keeps."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\|$)"
    r"|[PX^_][^\x1b]*(?:\x1b\\|$)|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x09}
_BIDI = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0xFEFF))
_DROPPED = _CONTROL | _BIDI


def segments(data: bytes) -> list[str]:
    """The parts of a line between carriage returns, cleaned; empty ones are left out."""
    text = data.decode("utf-8", "replace")
    return [part for part in (clean(piece) for piece in text.split("\r")) if part.strip()]


def clean(text: str) -> str:
    """`text` without terminal escapes, control characters (tabs stay) and direction marks."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    return text if text.isprintable() else text.translate(_DROPPED)


class AdviceCutter:
    """Cuts the catalogue's advice out of a text."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._triggers = tuple(t for advice in catalogue.advice for t in advice.triggers)
        self._patterns = tuple(advice.pattern for advice in catalogue.advice)
        self._compiled: re.Pattern[str] | None = None

    def cut(self, text: str) -> str:
        """`text` without advice."""
        if not any(trigger in text for trigger in self._triggers):
            return text
        if self._compiled is None:
            self._compiled = re.compile("|".join(f"(?:{p})" for p in self._patterns))
        return self._compiled.sub("", text)
