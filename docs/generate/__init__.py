"""Writes docs/checks.md and docs/failures.md from the code, so that they cannot disagree."""

HEAD = "<!-- Written by `make docs` from {source}. Edit that, not this. -->\n\n"


def cell(text: object) -> str:
    """One cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
