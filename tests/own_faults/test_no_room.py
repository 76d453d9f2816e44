"""No space, no inodes, no write access, no memory, no file handles: a stated verdict in time, and
no healthy node is drained for it."""

import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from healthcheck.baseline import load_baseline

HOOKS = ("flightcheck-prolog", "flightcheck-epilog")
MOUNT = """\
set -e
mount -t tmpfs -o size=256k,nr_inodes=64 tmpfs {state}
cp -a {kept}/. {state}/
{fill}
exec {hook}
"""
FILLS = {
    "full": "dd if=/dev/zero of={state}/other bs=4k 2>/dev/null || true",
    "no inodes": "i=0; while touch {state}/i$i 2>/dev/null; do i=$((i+1)); done",
    "read-only": "mount -o remount,ro {state}",
}


def within(node, script: str, env: dict[str, str]) -> subprocess.CompletedProcess:
    """Run a script in a mount namespace of its own: what it mounts goes with it."""
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        env=node.environment(**env) | {"PATH": f"{node.environment()['PATH']}:/usr/sbin:/sbin"},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("lack", FILLS)
@pytest.mark.parametrize("sick", [False, True], ids=["healthy", "sick"])
def test_a_state_folder_without_room_changes_no_verdict(
    lack, hook, sick, h100, sick_template, job, failed_job, tmp_path
):
    if sick:
        shutil.rmtree(h100.root)
        shutil.copytree(sick_template, h100.root, symlinks=True)
    kept = tmp_path / "kept"
    shutil.copytree(h100.state, kept)
    shutil.rmtree(h100.state)
    h100.state.mkdir()
    env = job if "prolog" in hook else failed_job
    fill = FILLS[lack].format(state=h100.state)
    done = within(h100, MOUNT.format(state=h100.state, kept=kept, fill=fill, hook=hook), env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("no-go node01" if sick else "go node01") in done.stdout
    assert sick or "no-go" not in done.stdout
    # What cannot be kept is said; a baseline that stays behind only makes growth look larger.
    assert "note: " in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("hook", HOOKS)
def test_little_memory_never_makes_a_healthy_node_no_go(hook, h100, job, failed_job):
    """RLIMIT_AS from enough down to what no interpreter starts with."""
    env = job if "prolog" in hook else failed_job
    told = {}
    for mib in (400, 200, 120, 90, 70, 60, 50, 45, 40):
        done = limited(h100, hook, env, resource.RLIMIT_AS, mib << 20)
        if not started(done):
            continue  # the interpreter itself did not come up; the wrapper answers for that
        told[mib] = done.stdout
        assert done.returncode == 0, (mib, done.stdout, done.stderr)
        assert "no-go" not in done.stdout and "would drain" not in done.stdout, (mib, done.stdout)
    assert "go node01" in told[400]
    assert len(told) > 3


@pytest.mark.parametrize("hook", HOOKS)
def test_few_file_handles_never_make_a_healthy_node_no_go(hook, h100, job, failed_job):
    env = job if "prolog" in hook else failed_job
    told = {}
    for handles in (256, 64, 40, 30, 24, 20, 16, 12, 10, 8, 6, 5):
        done = limited(h100, hook, env, resource.RLIMIT_NOFILE, handles)
        if not started(done):
            continue
        told[handles] = done.stdout
        assert done.returncode == 0, (handles, done.stdout, done.stderr)
        assert "no-go" not in done.stdout, (handles, done.stdout)
    assert "go node01" in told[256]
    assert len(told) > 5
    baseline, note = load_baseline(str(h100.state))
    assert baseline is not None and note is None


def limited(node, hook, env, what, most) -> subprocess.CompletedProcess:
    """The hook under a limit that its children inherit."""
    script = Path(node.environment()["PATH"].split(":")[0]) / hook
    return subprocess.run(
        [str(script)], env=node.environment(**env), capture_output=True, text=True, timeout=240,
        preexec_fn=lambda: resource.setrlimit(what, (most, most)),
    )  # fmt: skip


def started(done: subprocess.CompletedProcess) -> bool:
    """Whether our own code ran: Python says otherwise what it could not load."""
    return "flightcheck: " in done.stdout + done.stderr
