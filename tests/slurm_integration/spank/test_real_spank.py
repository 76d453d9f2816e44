"""The plugin in a real Slurm: its option, the site's policy, and the record of task exits."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from slurm_flight import CONFIG, USER, Flight

from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.machine.live import break_machine

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        not os.path.exists("/usr/include/slurm/spank.h"),
        reason="no Slurm headers; on Debian: apt-get install libslurm-dev",
    ),
]
SOURCES = Path(__file__).parents[3] / "slurm_integration/spank"
POLICY = """\
[preflight]
off_partitions = ["free"]
[epilog]
task_record = "{state}/tasks"
"""
CRASHES = """\
import ctypes, os, time
rank = int(os.environ["SLURM_PROCID"])
if rank == 2:
    ctypes.string_at(0)
time.sleep(1.5)
raise SystemExit(1)
"""


def build(folder: Path, **settings: str) -> Path:
    arguments = [f"{name}={value}" for name, value in settings.items()]
    subprocess.run(["make", "-s", "-C", str(SOURCES), f"OUT={folder}", *arguments], check=True)
    return folder / "flightcheck.so"


def of_another_release(folder: Path) -> Path:
    """As built against headers of Slurm 99."""
    include = folder / "include/slurm"
    include.mkdir(parents=True)
    for header in Path("/usr/include/slurm").iterdir():
        text = header.read_text()
        if header.name == "slurm_version.h" or "define SLURM_VERSION_NUMBER" in text:
            text = re.sub(r"(define SLURM_VERSION_NUMBER).*", r"\1 SLURM_VERSION_NUM(99,5,0)", text)
        (include / header.name).write_text(text)
    return build(folder / "other", SLURM_INCLUDE=str(folder / "include"))


@pytest.fixture(scope="module")
def flight():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    state = Path(tempfile.mkdtemp(prefix="fc-spank-", dir="/tmp"))
    state.chmod(0o755)
    plugin = build(state / "plugin")
    try:
        running = Flight(
            state,
            config=CONFIG + POLICY.format(state=state),
            extra=("PartitionName=free Nodes=ALL MaxTime=INFINITE State=UP",),
            plugstack=(f"optional {plugin} record_dir={state}/tasks",),
        )
        yield running
    finally:
        cluster.down(str(state))
        shutil.rmtree(state, ignore_errors=True)


def slurm(flight: Flight, *argv: str) -> subprocess.CompletedProcess:
    return cluster.client(str(flight.state), *argv, timeout_s=60)


@pytest.mark.parametrize("command", ["sbatch", "srun", "salloc"])
def test_the_option_is_in_the_help(flight, command):
    assert "--preflight=off|quick|full" in slurm(flight, command, "--help").stdout


@pytest.mark.parametrize("argv", [("sbatch", "--wrap=true"), ("srun", "true"), ("salloc", "true")])
def test_a_value_that_does_not_exist_is_refused_at_submission(flight, argv):
    done = slurm(flight, argv[0], "--preflight=fast", *argv[1:])
    assert done.returncode != 0
    assert "expected off, quick or full, found 'fast'" in done.stderr
    assert "JOBID" in slurm(flight, "squeue").stdout


def prolog_said(flight: Flight, job: int) -> str:
    """What the prologs of a job wrote; slurmd's log does not have it, so the hook keeps it."""
    return (flight.state / f"said/{job}").read_text()


@pytest.fixture(scope="module", autouse=True)
def kept_words(flight):
    """slurmd logs a prolog's words only at debug level: a copy of them goes into a file."""
    said = flight.state / "said"
    said.mkdir()
    hook = flight.state / "bin/prolog"
    text = hook.read_text()
    last = text.rstrip().splitlines()[-1]
    command = last.removeprefix("exec ")
    hook.write_text(text.replace(last, f'{command} >> {said}/"$SLURM_JOB_ID" 2>&1'))


def submit(flight: Flight, *options: str, wrap: str = "true") -> int:
    job = flight.sbatch("--chdir=/tmp", "--output=/dev/null", *options, wrap=wrap)
    flight.wait(lambda: flight.job(job)["JobState"] in ("COMPLETED", "FAILED"))
    return job


@pytest.mark.parametrize("how", ["--preflight=off", "--comment=preflight=off"])
def test_off_counts_only_where_the_site_lets_it(flight, how):
    asked = submit(flight, how, "--partition=gpu")
    assert "may not" in prolog_said(flight, asked)
    assert "go node01" in prolog_said(flight, asked)
    free = submit(flight, how, "--partition=free")
    assert "nothing was looked at" in prolog_said(flight, free)
    assert "go node01" not in prolog_said(flight, free)


def test_the_environment_gives_a_default_that_the_option_beats(flight, monkeypatch):
    monkeypatch.setenv("FLIGHTCHECK_PREFLIGHT", "off")
    job = submit(flight, "--partition=free")
    assert "nothing was looked at" in prolog_said(flight, job)
    job = submit(flight, "--partition=free", "--preflight=quick")
    assert "preflight quick" in prolog_said(flight, job)
    assert "go node01" in prolog_said(flight, job)


def test_a_rank_that_segfaults_is_in_the_record_and_in_the_report(flight):
    (flight.home / "job.py").write_text(CRASHES)
    job = flight.sbatch(
        f"--uid={USER}", f"--chdir={flight.home}", "--nodes=2", "--ntasks-per-node=2",
        "--output=log", "--gpus-per-node=8",
        # Without srun's words, and with ranks dealt out in turn, only the record knows.
        wrap="srun -m cyclic --kill-on-bad-exit=0 /usr/bin/python3 job.py 2>/dev/null",
    )  # fmt: skip
    record = flight.state / f"tasks/{job}.node01"
    flight.wait(lambda: record.exists() and len(record.read_text().splitlines()) >= 1)
    assert record.stat().st_uid == 0
    report = flight.report(job)
    assert report["class"] == "user/segfault", report
    assert report["root"] == {"ranks": [2], "nodes": ["node01"], "gpus": []}
    assert report["drain"] == "no"
    flight.wait(lambda: not list((flight.state / "tasks").glob(f"{job}.*")))
    assert (flight.home / "log").read_text() == ""


def test_the_owner_of_the_job_can_read_and_write_no_record(flight):
    line = (
        f"ls {flight.state}/tasks; cat {flight.state}/tasks/*; echo x >> {flight.state}/tasks/1.n"
    )
    job = flight.sbatch(
        f"--uid={USER}",
        f"--chdir={flight.home}",
        "--output=denied",
        wrap=f"{line}; srun true; {line}",
    )
    flight.wait(lambda: flight.job(job)["JobState"] in ("COMPLETED", "FAILED"))
    told = (flight.home / "denied").read_text()
    assert told.count("Permission denied") >= 4 or told.count("ermission denied") >= 4, told
    assert not (flight.state / "tasks/1.n").exists()


def with_plugstack(flight: Flight, line: str) -> None:
    (flight.state / "etc/plugstack.conf").write_text(line + "\n")


@pytest.fixture
def plugstack(flight):
    path = flight.state / "etc/plugstack.conf"
    kept = path.read_text()
    yield lambda line: with_plugstack(flight, line)
    path.write_text(kept)


@pytest.mark.parametrize(
    "trouble", ["missing", "other release", "full", "a file", "others'", "odd"]
)
def test_whatever_is_wrong_with_the_plugin_jobs_run(flight, plugstack, trouble, tmp_path):
    plugin = flight.state / "plugin/flightcheck.so"
    folder = flight.state / f"folder-{trouble.split()[0].strip(chr(39))}"
    if trouble == "missing":
        plugin = Path("/no/such/flightcheck.so")
    elif trouble == "other release":
        plugin = of_another_release(flight.state)
    elif trouble == "full":
        folder = Path("/dev/full")
    elif trouble == "a file":
        folder.write_text("")
    elif trouble == "others'":
        folder.mkdir()
        folder.chmod(0o777)
    plugstack(f"optional {plugin} record_dir={folder if trouble != 'odd' else 'here'} nonsense=1")
    out = tmp_path / "out"
    job = flight.sbatch("--chdir=/tmp", f"--output={out}", wrap="srun sh -c 'echo ran; exit 3'")
    flight.wait(lambda: flight.job(job)["JobState"] in ("COMPLETED", "FAILED"))
    assert flight.job(job)["ExitCode"] == "3:0"
    assert "ran" in out.read_text()
    assert flight.drained() == {}


def test_a_preflight_that_was_not_granted_still_keeps_the_job_off_a_sick_node(flight):
    break_machine(str(flight.root("node01")), "xid-79")
    job = flight.sbatch(
        "--chdir=/tmp", "--output=/dev/null", "--preflight=off", "--nodelist=node01", wrap="true"
    )
    flight.wait(flight.drained)
    assert "no-go" in prolog_said(flight, job)
    assert set(flight.drained()) == {"node01"}
