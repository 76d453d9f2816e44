"""A file of the installation that is cut short or garbled ends no job and drains no node."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("healthcheck", "prolog", "epilog", "slurm_integration")
STRIDE = int(os.environ.get("FLIGHTCHECK_CORRUPT_STRIDE", "3"))
"""Every third file, for CI; 1 garbles each of them."""
GARBAGE = {"empty": b"", "cut": None, "garbled": b"\x00\xff\xfe not python \x00" * 10}


@pytest.fixture(scope="module")
def install(tmp_path_factory) -> Path:
    """A copy of our packages; the libraries stay where they are."""
    folder = tmp_path_factory.mktemp("install")
    ignore = shutil.ignore_patterns("__pycache__", "sandbox", "fleet_report", "templates")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=ignore)
    return folder


def fly(node, folder: Path, stage: str, env: dict[str, str]) -> subprocess.CompletedProcess:
    """The hook from that copy, as its console script calls it."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from {stage}.main import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-B", "-c", code], env=node.environment(**env),
        capture_output=True, text=True, timeout=240, cwd="/",
    )  # fmt: skip


def modules(node, folder: Path, stage: str, env: dict[str, str]) -> list[Path]:
    """Our own files that a run of the hook reads."""
    code = (
        f"import os, sys; sys.path.insert(0, {str(folder)!r}); leave = os._exit\n"
        "def _exit(code):\n"
        f"    if '{stage}.stage' in sys.modules and os.getppid() == main_pid:\n"
        "        files = [getattr(m, '__file__', None) for m in list(sys.modules.values())]\n"
        "        print('\\n'.join(['FILES', *filter(None, files)]), flush=True)\n"
        "    leave(code)\n"
        "main_pid = os.getpid(); os._exit = _exit\n"
        f"from {stage}.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-B", "-c", code], env=node.environment(**env),
        capture_output=True, text=True, timeout=240, cwd="/",
    )  # fmt: skip
    names = done.stdout.partition("FILES\n")[2].split()
    return sorted({Path(name) for name in names if name.startswith(str(folder))})


@pytest.mark.parametrize("stage", ["prolog", "epilog"])
def test_no_broken_file_of_ours_fails_a_job(stage, install, h100, job, failed_job):
    env = job if stage == "prolog" else failed_job
    files = modules(h100, install, stage, env)
    assert len(files) > 40
    for index, file in list(enumerate(files))[::STRIDE]:
        if file in (install / stage / "main.py", install / stage / "__init__.py"):
            continue  # nothing of ours is left to answer: the wrapper does (tests of install)
        whole = file.read_bytes()
        how = list(GARBAGE)[index % len(GARBAGE)]
        file.write_bytes(GARBAGE[how] if GARBAGE[how] is not None else whole[: len(whole) // 2])
        try:
            done = fly(h100, install, stage, env)
        finally:
            file.write_bytes(whole)
        told = f"{file.relative_to(install)} {how}: {done.stdout}{done.stderr}"
        assert done.returncode == 0, told
        assert not re.search(r"\bno-go\b|would drain", done.stdout), told


@pytest.mark.parametrize("stage", ["prolog", "epilog", "slurm_integration.health"])
@pytest.mark.parametrize("how", ["empty", "garbled"])
def test_without_what_all_hooks_begin_with_it_says_what_to_do(install, h100, job, stage, how):
    file = install / "healthcheck/entry.py"
    whole = file.read_bytes()
    file.write_bytes(GARBAGE[how])
    try:
        done = fly(h100, install, stage, job)
    finally:
        file.write_bytes(whole)
    assert (done.returncode, done.stdout) == (0, "")
    assert "can't start" in done.stderr
    assert "nothing was drained. Install flightcheck anew on this node." in done.stderr


def test_whole_again_it_flies_again(install, h100, job):
    done = fly(h100, install, "prolog", job)
    assert (done.returncode, "go node01" in done.stdout) == (0, True)
