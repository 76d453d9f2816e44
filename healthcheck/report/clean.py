"""Making text from a machine safe for a terminal, a log line and a drain reason."""

import re

_UNSAFE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?"  # escape sequences whole
    # controls, bidi tricks, halves of characters
    r"|[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def clean(text: str, limit: int = 1000) -> str:
    """One line without escape sequences, control characters or direction overrides.

    Process names, device strings and log lines reach reports; whoever chose them must not be
    able to write to an operator's terminal (law 8). Cut to `limit` characters with an ellipsis.
    """
    line = " ".join(_UNSAFE.sub(" ", text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
