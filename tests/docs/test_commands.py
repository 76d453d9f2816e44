"""Every command that the documentation shows is run: on a simulated H100 node of a real Slurm
cluster, whose other node is reached by a real sshd."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from slurm_integration.sandbox import cluster, on_node, sshd
from slurm_integration.sandbox.machine import live

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", *(
    str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("docs/*.md"))
))  # fmt: skip
ELSEWHERE = {
    "flightcheck allreduce": "tests/slurm_integration/allreduce_nodes",
    "srun flightcheck allreduce": "tests/slurm_integration/allreduce_nodes",
    "bash .ci/run": ".ci/run",
}
"""Commands that only another place can run well, and which one does."""
CODES = {
    # 3: flightcheck holds no such node, or the node was not drained by it.
    "flightcheck resume": {0, 2},
    # The installation of the machine that runs the tests is nobody's production.
    "flightcheck doctor": {0, 1, 2},
}
"""Exit codes that are right besides 0."""
LOG = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 12, in <module>
[rank3]: ValueError: expected 4 heads, found 5
srun: error: node02: task 3: Exited with exit code 1
"""


class Shown(NamedTuple):
    """One command of one page."""

    page: str
    line: int
    command: str


def shown() -> list[Shown]:
    """Every command in a block marked `sh`, without its comment."""
    found = []
    for page in PAGES:
        path = ROOT / page
        inside = False
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            if line.startswith("```"):
                inside = line == "```sh"
            elif inside and line.strip():
                for part in re.split(r";\s", re.sub(r"\s+#.*", "", line)):
                    found += [Shown(page, number, part.strip())] if part.strip() else []
    return found


def commands() -> list[Shown]:
    """The first place that shows each command."""
    first: dict[str, Shown] = {}
    for one in shown():
        first.setdefault(re.sub(r"^\.venv/bin/", "", one.command), one)
    return [one._replace(command=command) for command, one in first.items()]


def elsewhere(command: str) -> str | None:
    return next((place for start, place in ELSEWHERE.items() if command.startswith(start)), None)


@pytest.fixture(scope="module")
def node() -> Iterator[dict[str, str]]:
    """The environment of a shell on node01 of a two-node cluster, in a folder of its own."""
    reason = cluster.why_not() or sshd.why_not()
    if reason:
        pytest.skip(reason)
    state = Path(tempfile.mkdtemp(prefix="fc-docs-", dir="/tmp"))
    state.chmod(0o755)
    spec = cluster.ClusterSpec(str(state), nodes=2)
    for name in spec.names:
        root = f"{state}/nodes/{name}/root"
        live.build_machine(root, "h100-sxm", name)
        live.take_baseline(root)
    daemons: dict[str, sshd.Sshd] = {}
    try:
        cluster.up(spec)
        program = on_node.write_program(state)
        keys, home = state / "ssh", state / "home"
        keys.mkdir()
        (home / ".ssh").mkdir(parents=True)
        for name in spec.names:
            path = f"{program.parent}:/usr/bin:/bin"
            daemons[name] = sshd.start(
                keys, name, environment={"SLURMD_NODENAME": name, "PATH": path}
            )
        shutil.copy(sshd.client_config(keys, daemons), home / ".ssh/config")
        work = state / "work"
        work.mkdir()
        (work / "slurm-4711.out").write_text(LOG)
        (work / "dmesg.txt").write_text("[12345.678901] usb 1-1: new device\n")
        (work / "train.py").write_text("")
        environment = {
            **cluster.client_environment(str(state)),
            **live.environment(f"{state}/nodes/node01/root"),
            "PATH": f"{program.parent}:{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
            "SLURMD_NODENAME": "node01",
            "HOME": str(home),
            "PWD": str(work),
        }
        fail_a_job(environment, work)
        yield environment
    finally:
        for daemon in daemons.values():
            sshd.stop(daemon)
        cluster.down(str(state))
        shutil.rmtree(state, ignore_errors=True)


def fail_a_job(environment: dict[str, str], work: Path) -> None:
    """Let the epilog look at a failed job 4711, so that there is something to report."""
    os.chmod(work, 0o755)
    job = {
        "SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "65534", "SLURM_JOB_GID": "65534",
        "SLURM_JOB_WORK_DIR": str(work), "SLURM_JOB_STDOUT": str(work / "slurm-4711.out"),
        "SLURM_JOB_EXIT_CODE2": "1:0", "SLURM_JOB_EXIT_CODE": "256", "SLURM_NODELIST": "node01",
        "SLURM_SCRIPT_CONTEXT": "epilog_slurmd",
    }  # fmt: skip
    done = subprocess.run(
        [BIN / "flightcheck-epilog"], env=environment | job, capture_output=True, timeout=240
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slurm
@pytest.mark.parametrize("one", commands(), ids=lambda one: one.command)
def test_a_command_of_the_documentation_works(one, node):
    words = shlex.split(one.command)
    if words[0] == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert all(word in targets for word in words[1:] if "=" not in word), one
        return
    place = elsewhere(one.command)
    if place:
        assert (ROOT / place).exists(), one
        return
    if words[:2] == ["flightcheck", "install"] and "--dry-run" not in words:
        words += ["--root", node["HOME"]]  # the machine that runs the tests keeps its /etc
    if words[:2] == ["flightcheck", "requalify"] and "--watch" in words:
        words.remove("--watch")  # goes on for ever
    if words[:2] == ["flightcheck", "sweep"]:
        words += ["--program", shutil.which("flightcheck", path=node["PATH"])]  # not in /opt here
    done = subprocess.run(
        words, env=node, cwd=node["PWD"], capture_output=True, text=True, timeout=240
    )
    start = next((codes for name, codes in CODES.items() if one.command.startswith(name)), {0})
    assert done.returncode in start, f"{one.page}:{one.line}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr


def test_the_documentation_shows_enough_commands():
    """The reader above finds what there is: were a fence renamed, everything would pass unseen."""
    found = [one.command for one in commands()]
    assert len(found) > 30
    assert any(command.startswith("flightcheck sweep") for command in found)
