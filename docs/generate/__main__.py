"""`make docs`: the reference pages, written from the code. `--check` only says what is stale."""

import sys
from pathlib import Path

from docs.generate import checks, failures

DOCS = Path(__file__).parents[1]
PAGES = {"checks.md": checks.page, "failures.md": failures.page}


def main(argv: list[str]) -> int:
    """Write the pages, or with `--check` compare them; 1 where one is stale."""
    stale = 0
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if path.exists() and path.read_text() == text:
            continue
        if argv == ["--check"]:
            print(f"docs/{name} does not say what the code says; run: make docs", file=sys.stderr)
            stale = 1
        else:
            path.write_text(text)
            print(f"docs/{name}: {len(text.splitlines())} lines")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
