"""Whose code a hook runs: ours, whatever lies where it is started or in its variables."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from healthcheck.allreduce.environment import child_environment
from healthcheck.command import run_command
from slurm_integration import scontrol
from slurm_integration.install.layout import Site, items
from slurm_integration.install.model import Manifest

BIN = Path(sys.executable).parent
NAMES = (
    "torch",
    "click",
    "msgspec",
    "pynvml",
    "json",
    "re",
    "signal",
    "sitecustomize",
    "usercustomize",
    "healthcheck",
    "hyperscan",
    "readline",
)
EVIL = 'import os\nopen(os.environ.get("MARK", "/dev/null"), "a").write(__name__ + "\\n")\n'


@pytest.fixture
def trap(tmp_path) -> Path:
    """A user's folder full of modules that tell when somebody imports them."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(EVIL)
    (folder / "pyvenv.cfg").write_text("home = /nowhere\n")
    return folder


def hostile(trap: Path, tmp_path: Path) -> dict[str, str]:
    """All that a job's environment could hold to lead an interpreter or a linker astray."""
    start = tmp_path / "startup.py"
    start.write_text(EVIL)
    return {
        "MARK": str(tmp_path / "mark"),
        "PYTHONPATH": str(trap),
        "PYTHONSTARTUP": str(start),
        "PYTHONUSERBASE": str(trap),
        "PYTHONHOME": str(trap),
        "PYTHONINSPECT": "1",
        "PYTHONWARNINGS": "error::trap.Warn",
        "PYTHONBREAKPOINT": "trap.hook",
        "LD_PRELOAD": str(trap / "lib.so"),
        "LD_LIBRARY_PATH": str(trap),
        "LD_AUDIT": str(trap / "a"),
        "PYTHONPYCACHEPREFIX": str(trap),
        "HOME": str(trap),
    }


@pytest.mark.parametrize("hook", ["prolog", "epilog", "health"])
def test_a_hook_as_installed_imports_nothing_of_a_users(h100, job, trap, tmp_path, hook):
    site = Site("/etc/slurm", str(BIN), sys.executable, "/var/lib/flightcheck")
    found = {os.path.basename(item.path): item.text for item in items(site, Manifest())}
    script = tmp_path / f"{hook}.sh"
    script.write_text(found[script.name])
    script.chmod(0o755)
    env = {**job, **hostile(trap, tmp_path), "FLIGHTCHECK_ROOT": str(h100.root)}
    done = subprocess.run(
        [script], cwd=trap, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0
    assert "flightcheck: go node01" in done.stdout, done.stdout + done.stderr
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()


@pytest.mark.parametrize("name", ["flightcheck-prolog", "flightcheck-epilog", "flightcheck-health"])
def test_a_hook_without_a_wrapper_imports_nothing_from_where_it_is_started(
    h100, job, trap, tmp_path, name
):
    env = {**h100.environment(**job), "MARK": str(tmp_path / "mark")}
    done = subprocess.run(
        [BIN / name], cwd=trap, env=env, capture_output=True, timeout=240, check=False
    )
    assert done.returncode == 0
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()


def test_the_command_line_imports_nothing_from_where_it_is_started(h100, trap, tmp_path):
    env = {**h100.environment(), "MARK": str(tmp_path / "mark")}
    for words in (["check"], ["explain", "xid"], ["sweep", "--help"], ["config", "show"]):
        subprocess.run(
            [BIN / "flightcheck", *words],
            cwd=trap,
            env=env,
            capture_output=True,
            timeout=240,
            check=False,
        )
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()


def test_programs_that_we_start_get_nothing_of_it(monkeypatch, trap, tmp_path):
    for name, value in hostile(trap, tmp_path).items():
        monkeypatch.setenv(name, value)
    told = run_command(["/usr/bin/env"], 10.0).stdout
    assert dict(line.partition("=")[::2] for line in told.splitlines()) == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
    }
    assert set(scontrol.environment()) <= {"PATH", "LC_ALL", "TZ", "SLURM_CONF"}


def test_the_all_reduce_child_of_a_hook_gets_no_library_path(trap, tmp_path):
    inherited = hostile(trap, tmp_path) | {"TMPDIR": str(trap), "NCCL_SOCKET_IFNAME": "evil0"}
    hook = child_environment({**inherited, "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}, {})
    assert not [name for name, value in hook.items() if str(trap) in value and name != "HOME"]
    by_hand = child_environment(inherited, {})
    assert by_hand["LD_LIBRARY_PATH"] == str(trap)  # torch of a module system needs it
    assert not [
        name for name in by_hand if name.startswith(("PYTHON", "LD_PRELOAD", "NCCL_SOCKET"))
    ]
