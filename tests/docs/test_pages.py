"""The documentation says what the code says, and every link in it leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([\w.-]+))?\)")


def anchors(page: Path) -> set[str]:
    """What its headings are called in links, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_the_reference_pages_are_what_the_code_says():
    done = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target, anchor in LINK.findall(page.read_text()):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path = (page.parent / target) if target else page
        assert path.exists(), f"{page.name}: no {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{page.name}: no heading {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_exists(page):
    """`healthcheck/host.py` in the running text: renamed files are renamed here too."""
    if page.name == "CHANGELOG.md":
        return
    folders = "healthcheck|prolog|epilog|slurm_integration|tests|benchmarks|contrib|examples|docs"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", page.read_text()):
        assert (ROOT / path).exists(), f"{page.name}: no {path}"
