"""Completion in a real bash, and man pages that man itself has nothing to say about."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from healthcheck.cli import COMMANDS

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
COMPLETE = """\
source <(flightcheck completion bash)
COMP_WORDS=({words}) COMP_CWORD={at}
_flightcheck_completion flightcheck
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(*words: str) -> list[str]:
    """What bash offers in place of the last word."""
    script = COMPLETE.format(words=" ".join(f'"{w}"' for w in words), at=len(words) - 1)
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{BIN}:/usr/bin:/bin"},
    )  # fmt: skip
    return done.stdout.split()


def test_commands_are_completed_by_their_beginning():
    assert set(complete("flightcheck", "")) >= set(COMMANDS)
    assert complete("flightcheck", "swe") == ["sweep"]


def test_options_and_choices_are_completed():
    assert "--html" in complete("flightcheck", "sweep", "--h")
    assert complete("flightcheck", "sweep", "--via", "s") == ["srun", "ssh"]


def test_completing_a_command_loads_none_of_them():
    """Each press of the key waits for it."""
    code = (
        "import os, sys; from healthcheck.cli import flightcheck\n"
        "os.environ |= {'_FLIGHTCHECK_COMPLETE': 'bash_complete', 'COMP_WORDS': 'flightcheck s',"
        " 'COMP_CWORD': '1'}\n"
        "try: flightcheck.main([], prog_name='flightcheck')\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if '.commands.' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "sweep" in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_the_other_shells_are_ones(shell, tmp_path):
    done = subprocess.run(
        [BIN / "flightcheck", "completion", shell], capture_output=True, text=True
    )
    assert done.returncode == 0 and "_FLIGHTCHECK_COMPLETE" in done.stdout
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(done.stdout)
        subprocess.run([shell, "-n", str(path)], check=True)


@pytest.fixture(scope="module")
def man(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, "-m", "docs.generate.man", str(folder)], cwd=ROOT, check=True)
    return folder


def test_every_command_and_hook_has_a_page(man):
    names = {path.name for path in man.rglob("*.[158]")}
    assert {f"flightcheck-{name}.1" for name in COMMANDS} <= names
    assert {f"flightcheck-{hook}.8" for hook in ("prolog", "epilog", "health")} <= names
    assert "flightcheck.toml.5" in names


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_no_page_makes_roff_complain(man):
    for path in man.rglob("*.[158]"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", str(path)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and not done.stderr, f"{path.name}: {done.stderr[:400]}"
        assert len(done.stdout) > 500
