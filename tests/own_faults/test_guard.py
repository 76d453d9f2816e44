"""Whatever happens to the hook itself, slurmd gets an answer in time."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FROZEN = """\
set -e
dd if=/dev/zero of={image} bs=1M count=16 2>/dev/null
mkfs.ext4 -q {image}
mount -o loop {image} {state}
cp -a {kept}/. {state}/
fsfreeze -f {state}
trap 'fsfreeze -u {state}' EXIT
"$@" && code=0 || code=$?
exit $code
"""


def guarded(body: str, **env: str) -> subprocess.CompletedProcess:
    """A hook with this body, in a process of its own."""
    code = (
        "import os, signal, sys, time\nfrom healthcheck import guard\n"
        "def hook():\n" + "".join(f"    {line}\n" for line in body.splitlines()) +
        "code = guard.guarded(hook, 'prolog')\nguard.leave(code)\n"
    )  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240,
        env={**os.environ, **env},
    )  # fmt: skip


def test_what_a_hook_says_and_its_code_come_through():
    done = guarded("print('a' * 200_000)\nprint('trouble', file=sys.stderr)\nreturn 75")
    assert done.returncode == 75
    assert done.stdout == "a" * 200_000 + "\n"
    assert done.stderr == "trouble\n"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_hook_that_dies_of_a_signal_is_no_failed_hook(number):
    done = guarded(f"print('so far')\nos.kill(os.getpid(), {int(number)})")
    assert done.returncode == 0
    assert "so far" in done.stdout
    assert f"died of signal {int(number)}" in done.stdout


def test_a_hook_that_goes_on_for_ever_is_left_behind_at_its_deadline():
    done = guarded("guard.promise(time.monotonic() + 0.3)\nprint('verdict')\nwhile True: pass")
    assert done.returncode == 0
    assert "verdict" in done.stdout
    assert "did not end by its deadline (state R" in done.stdout


def test_what_was_decided_before_it_got_stuck_still_holds():
    body = "guard.promise(time.monotonic() + 0.3)\nguard.decided(75)\ntime.sleep(60)"
    assert guarded(body).returncode == 75


def test_a_stuck_grandchild_with_our_output_does_not_hold_the_hook():
    done = guarded(
        "print('done', flush=True)\nif os.fork() == 0: time.sleep(5); os._exit(0)\nreturn 0"
    )
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.fixture
def frozen(h100, tmp_path):
    """A command on the node whose state folder lies on a file system that is frozen."""
    kept = tmp_path / "kept"
    shutil.copytree(h100.state, kept)
    image = tmp_path / "disk"
    script = FROZEN.format(image=image, state=h100.state, kept=kept)
    base = h100.environment()["PATH"]

    def run(hook: str, **env: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
             str(Path(base.split(":")[0]) / hook)],
            env=h100.environment(**env) | {"PATH": f"{base}:/usr/sbin:/sbin"},
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        if "mount" in done.stderr and "flightcheck" not in done.stdout:
            pytest.skip(f"no loop mount here: {done.stderr}")
        return done

    return run


@pytest.mark.parametrize("hook", ["flightcheck-prolog", "flightcheck-epilog"])
@pytest.mark.parametrize("fault", [None, "xid-79"])
def test_a_disk_that_holds_every_writer_holds_no_hook(
    hook, fault, frozen, h100, job, failed_job, sick_template, tmp_path
):
    if fault:
        h100.break_(fault)
    env = job if "prolog" in hook else failed_job
    h100.configure("deadline_s = 3\n[epilog]\ndeadline_s = 3\n")
    done = frozen(hook, **env, FLIGHTCHECK_CONFIG=str(h100.config))
    assert done.returncode == 0, done.stdout + done.stderr
    # The verdict was reached and said before anything was written.
    assert ("no-go node01" if fault else "go node01") in done.stdout, done.stdout
    assert "did not end by its deadline (state D" in done.stdout, done.stdout
