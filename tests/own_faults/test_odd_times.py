"""Clocks that jump, looks at the same moment, and an end that comes from outside."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from healthcheck.baseline import load_baseline
from healthcheck.event_log import read_since

YEAR_S = 365 * 86_400.0
SHIFT = """\
import os, time
_real = time.time
time.time = lambda: _real() + float(os.environ["CLOCK_SHIFT"])
"""


@pytest.fixture
def shifted(tmp_path):
    """Environment of a process whose clock is ahead by so many seconds."""
    folder = tmp_path / "shift"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SHIFT)
    return lambda seconds: {"PYTHONPATH": str(folder), "CLOCK_SHIFT": str(seconds)}


@pytest.mark.parametrize("first", [-10 * YEAR_S, -3600.0, 0.0, 3600.0, 10 * YEAR_S])
@pytest.mark.parametrize("second", [-10 * YEAR_S, 0.0, 10 * YEAR_S])
def test_a_clock_that_jumps_condemns_no_healthy_node(first, second, h100, job, shifted):
    for shift in (first, second, first):
        done = h100.run("flightcheck-prolog", **job, **shifted(shift))
        assert done.returncode == 0
        assert "go node01" in done.stdout and "no-go" not in done.stdout, done.stdout


@pytest.mark.parametrize("jump", [-10 * YEAR_S, -60.0, 60.0, 10 * YEAR_S])
def test_a_clock_that_jumps_hides_no_new_fault(jump, h100, job, shifted):
    h100.run("flightcheck-prolog", **job)
    h100.break_("xid-79")
    for shift in (jump, 0.0):  # found, and found again until somebody mends it
        done = h100.run("flightcheck-prolog", **job, **shifted(shift))
        assert "no-go" in done.stdout and "xid" in done.stdout, done.stdout


def test_eight_prologs_at_once_on_one_node_hurt_nobody(h100, job):
    """Shared nodes: jobs start at the same moment."""
    script = Path(h100.environment()["PATH"].split(":")[0]) / "flightcheck-prolog"
    for faults in ((), ("xid-79",)):
        for fault in faults:
            h100.break_(fault)
        flying = [
            subprocess.Popen(
                [str(script)], env=h100.environment(**{**job, "SLURM_JOB_ID": str(5000 + number)}),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for number in range(8)
        ]  # fmt: skip
        said = [one.communicate(timeout=240)[0] for one in flying]
        assert [one.returncode for one in flying] == [0] * 8
        assert all(("no-go" in text) == bool(faults) for text in said), said
        baseline, note = load_baseline(str(h100.state))
        assert baseline is not None and note is None
    page = read_since(str(h100.state))
    assert page.broken == 0 and any(event.check == "xid" for event in page.events)
    json.loads((h100.state / "prolog.json").read_bytes())


@pytest.mark.parametrize("hook", ["flightcheck-prolog", "flightcheck-epilog"])
def test_slurm_ending_a_hook_drains_no_node(hook, h100, job, failed_job):
    """SIGTERM, as from slurmd at its own deadline: a signal would count as a failed prolog."""
    env = job if "prolog" in hook else failed_job
    h100.break_("nvml-hang")
    script = Path(h100.environment()["PATH"].split(":")[0]) / hook
    for wait_s in (0.3, 0.8, 1.5):
        one = subprocess.Popen(
            [str(script)], env=h100.environment(**env), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(wait_s)
        one.send_signal(signal.SIGTERM)
        said, trouble = one.communicate(timeout=240)
        assert one.returncode == 0, (said, trouble)
        assert "unknown: ended by signal 15" in said, (said, trouble)
        assert "Traceback" not in trouble


def whole_tree(pid: int) -> set[int]:
    """A process and all that come from it."""
    found = {pid}
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            continue
        found |= {one for child in children for one in whole_tree(int(child))}
    return found


def signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


@pytest.mark.parametrize("hook", ["flightcheck-prolog", "flightcheck-epilog"])
def test_a_machine_that_stands_still_for_seconds_condemns_nobody(hook, h100, job, failed_job):
    """A paused guest, a stalled disk, no processor: nothing runs, but the clock does."""
    env = job if "prolog" in hook else failed_job
    script = Path(h100.environment()["PATH"].split(":")[0]) / hook
    flying, stopped = [], []
    for wait_s in (0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3):
        one = subprocess.Popen(
            [str(script)], env=h100.environment(**env), stdout=subprocess.PIPE, text=True
        )
        flying.append(one)
        time.sleep(wait_s)
        pids: set[int] = set()
        while new := whole_tree(one.pid) - pids:  # also what was started meanwhile
            signal_all(new, signal.SIGSTOP)
            pids |= new
        stopped.append(pids)
    time.sleep(7)  # longer than the probes have
    for pids in stopped:
        signal_all(pids, signal.SIGCONT)
    for one in flying:
        said = one.communicate(timeout=240)[0]
        assert one.returncode == 0
        assert "no-go" not in said and "hangs" not in said, said


def test_children_of_a_killed_hook_end_by_themselves(h100, job, monkeypatch):
    """SIGKILL reaches the hook alone; its probe, held by the driver, is not left for ever."""
    from healthcheck import reading

    h100.break_("nvml-hang")
    text = Path(reading.__file__).read_text()
    assert re.search(r"signal\.alarm\(CHILD_LIFE_S\)", text)
    code = (
        "import os, healthcheck.reading as r; r.CHILD_LIFE_S = 2\n"
        "from prolog.main import main; main()"
    )
    one = subprocess.Popen(
        [shutil.which("python", path=h100.environment()["PATH"]), "-c", code],
        env=h100.environment(**job), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(0.8)
    children = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
    assert children
    one.kill()
    one.wait()
    until = time.monotonic() + 240
    while left := [pid for pid in children if os.path.exists(f"/proc/{pid}")]:
        assert time.monotonic() < until, left
        time.sleep(0.1)
