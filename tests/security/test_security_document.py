"""SECURITY.md names guards and tests; each of them is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w./-]+/[\w.-]+(?:::\w+)?)`", TEXT)))
FILES = [name for name in NAMED if not name.startswith(("/", "../")) and "::" not in name]
TESTS = [name for name in NAMED if "::" in name]


def functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("name", FILES)
def test_a_guard_that_is_named_exists(name):
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", TESTS)
def test_a_test_that_is_named_exists(name):
    path, _, function = name.partition("::")
    assert function in functions(ROOT / path)


def test_each_row_has_a_test_and_all_but_slurms_own_have_a_guard():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and "::" in line]
    assert len(rows) > 30
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 4, row
        assert all("::" in one for one in cells[-1].split(", ")), row


def test_every_security_test_of_this_folder_shows_something_that_is_named():
    here = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
    assert {name for name in here if f"tests/security/{name}::" not in TEXT} == set()
