"""The house holds: contracts, small files, a check is one file."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from healthcheck.registry import STAGES, load_checks

ROOT = Path(__file__).parents[2]
PACKAGES = ("healthcheck", "prolog", "epilog", "slurm_integration")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def test_the_import_contracts_hold():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text())), path


def test_every_check_is_well_declared():
    checks, broken = load_checks()
    assert broken == {}
    assert len(checks) > 40
    for check in checks.values():
        assert check.doc.splitlines()[0].endswith("."), check.name
        for part in ("What it means:", "What we do:", "What to do:"):
            assert part in check.doc, f"{check.name}: its docstring lacks {part!r}"
        assert set(check.stages) <= set(STAGES), check.name
        assert check.stages, check.name
        assert check.source, f"{check.name}: a rule has a source"


def test_a_new_check_is_one_file(tmp_path, monkeypatch):
    """Law of the house: no registration, no list, no other file to touch."""
    rule = tmp_path / "site_rule.py"
    rule.write_text(
        '"""A site\'s own."""\n'
        "from healthcheck.model import warn\n"
        "from healthcheck.registry import check\n"
        '@check("site-rule")\n'
        "def site_rule(node, limits):\n"
        '    """Always complains."""\n'
        '    yield warn("node", "as a test")\n'
    )
    dist = tmp_path / "site_checks-1.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: site-checks\nVersion: 1\n")
    (dist / "entry_points.txt").write_text("[flightcheck.checks]\nmine = site_rule\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from healthcheck.registry import load_checks; c, b = load_checks();"
        "assert not b, b; assert 'site-rule' in c"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
