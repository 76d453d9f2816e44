"""A hook that is killed at any step of writing what the node remembers loses none of it.

strace first lists every call of a run that writes, then kills the same run at each of them.
"""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from healthcheck.baseline import load_baseline
from healthcheck.event_log import read_since
from healthcheck.events import load_standing
from healthcheck.host import host_at
from prolog.stage import run_prolog

WRITING = ("openat", "write", "fdatasync", "fsync", "rename", "unlink", "flock", "ftruncate",
           "mkdir")  # fmt: skip
STRIDE = int(os.environ.get("FLIGHTCHECK_KILL_STRIDE", "3"))
"""Every third step, for CI; 1 takes a minute and a half and kills at each of them."""
BY_HANDLE = ("write", "fdatasync", "fsync", "flock", "ftruncate")
HOOKS = {"prolog": "flightcheck-prolog", "epilog": "flightcheck-epilog"}


def steps(node, hook: str, env: dict[str, str], trace: Path) -> list[tuple[str, int]]:
    """Every (call, which one of its kind) by which the hook's own process writes."""
    strace(node, hook, env, "-o", str(trace), "-e", f"trace={','.join(WRITING)}")
    lines = trace.read_text(errors="replace").splitlines()
    # The process that slurmd starts relays; the hook is the one that puts files in place.
    main = next(line.split()[0] for line in lines if "rename(" in line and ".draft" in line)
    count: dict[str, int] = {}
    found = []
    for line in lines:
        pid, _, text = line.partition(" ")
        call = re.match(r"\s*(\w+)\(", text)
        if pid != main or call is None:
            continue
        name = call[1]
        count[name] = count.get(name, 0) + 1
        creates = name == "openat" and "O_CREAT" in text
        if creates or name in BY_HANDLE or (name != "openat" and str(node.state) in text):
            found.append((name, count[name]))
    return found


def strace(node, hook: str, env: dict[str, str], *options: str) -> subprocess.CompletedProcess:
    script = str(Path(node.environment()["PATH"].split(":")[0]) / HOOKS[hook])
    return subprocess.run(
        ["strace", "-f", *options, script],
        env=node.environment(**env), capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def put_back(node, template: Path) -> None:
    """The node's own folder as it was; the machine itself does not change."""
    shutil.rmtree(node.state)
    shutil.copytree(template / "var/lib/flightcheck", node.state)


@pytest.fixture
def sick(sick_template, tmp_path, h100):
    """A node with a lost GPU that the next look has to find."""
    shutil.rmtree(h100.root)
    shutil.copytree(sick_template, h100.root, symlinks=True)
    return h100


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_kill_at_any_step_of_writing_loses_nothing(
    hook, sick, sick_template, job, failed_job, tmp_path, capsys
):
    env = job if hook == "prolog" else failed_job
    found = steps(sick, hook, env, tmp_path / "trace")
    assert {"rename", "write", "fdatasync"} <= {name for name, _ in found}
    found = found[::STRIDE]
    killed = 0
    for call, number in found:
        put_back(sick, sick_template)
        told = f"killed at {call} {number}"
        done = strace(
            sick, hook, env, "-o", "/dev/null", "-e",
            f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}",
        )  # fmt: skip
        killed += done.returncode in (-9, 137) or "died of signal 9" in done.stdout
        baseline, note = load_baseline(str(sick.state))
        assert baseline is not None and note is None, told
        # The next look is as good as if nothing had happened: the lost GPU is found and kept.
        capsys.readouterr()
        assert run_prolog(host_at(str(sick.root)), job, (), time.monotonic()) == 0, told
        said = capsys.readouterr().out
        assert "xid" in said and "set aside" not in said, (told, said)
        page = read_since(str(sick.state))
        assert any(event.check == "xid" for event in page.events), told
        assert len({event.id for event in page.events}) == len(page.events), told
        assert load_standing(str(sick.state)).findings, told
        for report in sick.state.rglob("*.json"):
            json.loads(report.read_bytes())
    # Some fall out of step: what comes before them is not the same in every run.
    assert killed > len(found) * 0.7


def test_drafts_of_a_killed_hook_do_not_gather(sick, sick_template, job):
    """What a killed writer leaves is overwritten or removed, not kept for ever."""
    for number in range(1, 8):
        strace(
            sick, "prolog", job, "-o", "/dev/null", "-e", "trace=rename",
            "-e", f"inject=rename:signal=SIGKILL:when={number % 3 + 1}",
        )  # fmt: skip
    sick.run("flightcheck-prolog", **job)
    assert [path.name for path in sick.state.rglob("*draft*")] == []
    assert len(list(sick.state.iterdir())) < 10
