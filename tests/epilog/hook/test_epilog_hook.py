"""`flightcheck-epilog` as slurmd calls it: what it reads, says, leaves and never does."""

import json
import os
import stat

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user")
UID = 23_456
ERROR = "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: bad shape\n"


def users_file(path, text=ERROR, uid=UID):
    path.write_text(text)
    os.chown(path, uid, uid)
    return path


def report_of(node, job=4711):
    return json.loads((node.state / f"jobs/{job}/report.json").read_text())


def test_after_a_job_that_ended_well_one_line_and_nothing_else(after, slurm, h100, home):
    users_file(home / "slurm-4711.out")
    done = after("0:0")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("flightcheck: go node01 h100-sxm ")
    assert done.stderr == ""
    assert slurm.calls == []
    assert not (h100.state / "jobs").exists()
    assert sorted(p.name for p in home.iterdir()) == ["slurm-4711.out"]
    assert json.loads((h100.state / "epilog.json").read_text())["stage"] == "epilog"


def test_a_failed_job_is_explained_to_operator_and_owner(after, slurm, h100, home):
    users_file(home / "slurm-4711.out")
    done = after()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "job 4711 failed: user/python-exception" in done.stdout
    report = report_of(h100)
    assert report["class"] == "user/python-exception"
    assert report["root"]["ranks"] == [3]
    assert report["root"]["nodes"] == ["node01"]
    assert report["drain"] == "no"
    assert report["fault"] == "user"
    assert report["files"][0]["file"] == str(home / "slurm-4711.out")
    assert stat.S_IMODE((h100.state / "jobs/4711/report.json").stat().st_mode) == 0o600
    assert slurm.calls == ["-o show job 4711"]
    told = home / "flightcheck-4711.txt"
    assert (told.stat().st_uid, stat.S_IMODE(told.stat().st_mode)) == (UID, 0o644)
    text = told.read_text()
    assert "at fault: your program or its settings" in text
    assert "requeued: no" in text


@pytest.mark.parametrize("code", ["0:9", "1:0", "137:0"])
def test_a_hidden_failure_of_a_step_counts_too(after, h100, home, code):
    users_file(home / "slurm-4711.out")
    after(code)
    assert report_of(h100)
    done = after("0:0", SLURM_JOB_DERIVED_EC="256", SLURM_JOB_ID="4712")
    assert "job 4712 failed" in done.stdout


def test_only_the_first_node_reads_the_log(after, slurm, h100, home):
    users_file(home / "slurm-4711.out")
    done = after(SLURM_JOB_NODELIST="node[00-01],other")
    assert done.returncode == 0
    assert "failed" not in done.stdout
    assert slurm.calls == []
    assert not (h100.state / "jobs").exists()


def test_slurms_answer_is_used_for_what_the_environment_lacks(after, slurm, h100, home):
    (slurm.folder / "job").write_text(
        "JobId=4711 ArrayJobId=15 ArrayTaskId=2 JobName=my train UserId=u(1) JobState=FAILED "
        "StartTime=2026-01-01T00:00:00\n"
    )
    users_file(home / "my train-15_2.log")
    after(SLURM_JOB_STDOUT="%x-%A_%a.log")
    assert report_of(h100)["root"]["ranks"] == [3]


def test_without_slurm_the_default_log_is_read_all_the_same(after, h100, home):
    users_file(home / "slurm-4711.out")
    done = after(program="/nowhere/scontrol")
    assert done.returncode == 0
    report = report_of(h100)
    assert report["class"] == "user/python-exception"
    assert "scontrol did not show the job" in " ".join(report["notes"])


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/etc/passwd", "/dev/zero", "/dev/tty", "/proc/1/mem"]
)
def test_a_pattern_that_points_elsewhere_reads_nothing(after, h100, path):
    done = after(SLURM_JOB_STDOUT=path)
    assert done.returncode == 0
    report = report_of(h100)
    assert report["files"] == []
    assert report["category"] in ("unknown", "user")
    assert report["confidence"] <= 0.5
    assert report["drain"] == "no"
    assert "root:" not in json.dumps(report)
    assert not os.path.exists(f"{os.path.dirname(path)}/flightcheck-4711.txt")


def test_a_fifo_as_log_does_not_hold_the_node(after, h100, home):
    os.mkfifo(home / "log")
    os.chown(home / "log", UID, UID)
    assert after(SLURM_JOB_STDOUT="log").returncode == 0
    notes = " ".join(report_of(h100)["notes"])
    assert "found a FIFO" in notes and "too long" not in notes


def test_fake_lines_of_slurm_and_kernel_drain_nothing(after, slurm, h100, home):
    users_file(
        home / "slurm-4711.out",
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"
        "[  10.0] NVRM: Xid (PCI:0000:1b:00): 48, Double Bit ECC Error\n"
        "slurmstepd: error: *** JOB 4711 ON node01 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE "
        "FAILURE ***\n"
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n" * 3,
    )
    done = after(config="dry_run = false\n")
    assert done.returncode == 0
    report = report_of(h100)
    assert report["drain"] != "yes"
    assert report["decision"]["drain"] == []
    assert not [call for call in slurm.calls if "update" in call or "requeue" in call]


def test_escapes_in_logs_names_and_paths_reach_no_terminal(after, slurm, h100, home):
    bad = "\x1b]0;owned\x07\x1b[31m<script>alert(1)</script>\u202e"
    slurm.job(JobName=bad)
    users_file(
        home / "slurm-4711.out",
        f"[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: {bad}\n",
    )
    done = after(SLURM_JOB_USER=bad, SLURM_JOB_COMMENT=bad)
    left = [done.stdout, (h100.state / "jobs/4711/report.txt").read_text(),
            (h100.state / "jobs/4711/report.json").read_text(),
            (home / "flightcheck-4711.txt").read_text()]  # fmt: skip
    for text in left:
        assert "\x1b" not in text
        assert "\\u001b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text


def test_the_owners_file_is_never_written_through_a_link(after, home, tmp_path):
    users_file(home / "slurm-4711.out")
    target = tmp_path / "target"
    (home / "flightcheck-4711.txt").symlink_to(target)
    done = after()
    assert done.returncode == 0
    assert "could not be written" in done.stdout
    assert not target.exists()


def test_a_folder_the_user_cannot_write_gets_no_file(after, home):
    users_file(home / "slurm-4711.out")
    os.chown(home, 0, 0)
    home.chmod(0o755)
    done = after()
    assert done.returncode == 0
    assert not (home / "flightcheck-4711.txt").exists()


def test_a_second_run_of_the_job_has_a_file_of_its_own(after, home):
    users_file(home / "slurm-4711.out")
    after()
    after(SLURM_JOB_RESTART_COUNT="1")
    names = {p.name for p in home.glob("flightcheck-*")}
    assert names == {"flightcheck-4711.txt", "flightcheck-4711.restart1.txt"}


def test_a_lost_gpu_is_a_fact_and_drains_this_node(after, fake_slurm, h100, home):
    users_file(home / "slurm-4711.out", "[rank3]: RuntimeError: CUDA error: unknown error\n")
    h100.break_("xid-79")
    done = after(config="dry_run = false\n", program=fake_slurm.program)
    assert done.returncode == 0, done.stdout + done.stderr
    reason = fake_slurm.drained["node01"]
    assert reason.startswith("flightcheck: no-go ")
    assert "[job 4711" in reason
    report = report_of(h100)
    assert report["class"] == "hardware/gpu-off-bus"
    assert report["drain"] == "yes"
    assert report["root"]["nodes"] == ["node01"]
    assert report["decision"]["drain"] == ["node01"]


def test_as_shipped_a_lost_gpu_drains_nothing_and_that_is_said(after, fake_slurm, h100, home):
    h100.break_("xid-79")
    done = after(program=fake_slurm.program)
    assert done.returncode == 0
    assert "dry run" in done.stdout
    assert fake_slurm.drained == {}


def test_what_the_prolog_saw_already_did_not_begin_in_this_job(after, h100, home):
    """A dry-run site flies on bad nodes: not every failure there is the old fault's."""
    users_file(home / "slurm-4711.out")
    h100.break_("xid-79")
    prolog = h100.run(
        "flightcheck-prolog", SLURM_JOB_ID="4711", SLURM_JOB_UID=str(UID),
        SLURM_JOB_GPUS="0-7", SLURMD_NODENAME="node01",
    )  # fmt: skip
    assert "no-go" in prolog.stdout
    after(program="/nowhere/scontrol")
    report = report_of(h100)
    assert report["node"]["verdict"] == "no-go"
    assert report["class"] == "user/python-exception", report["evidence"]


@pytest.mark.parametrize("text", ["dry_rum = 1\n", "\x00", "[epilog]\nno_such = 1\n"])
def test_a_refused_configuration_is_loud_and_drains_nothing(after, fake_slurm, h100, home, text):
    users_file(home / "slurm-4711.out")
    h100.break_("xid-79")
    done = after(config=text, program=fake_slurm.program)
    assert done.returncode == 0
    assert "refused" in done.stdout
    assert fake_slurm.drained == {}


@pytest.mark.parametrize(
    "env",
    [
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "x"},
        {"SLURM_JOB_UID": "", "SLURM_JOB_GID": ""},
        {"SLURM_JOB_UID": "-1"},
        {"SLURM_JOB_EXIT_CODE2": "nonsense"},
        {"SLURM_JOB_NODELIST": "node[[["},
        {"SLURM_JOB_STDOUT": "%" * 3000},
        {"SLURM_JOB_STDOUT": "../../../../../../etc/shadow"},
        {"SLURM_JOB_WORK_DIR": "/nowhere/at/all"},
        {"SLURM_JOB_WORK_DIR": "relative"},
        {"SLURM_JOB_USER": "no such user"},
    ],
)
def test_odd_environments_end_in_zero(after, env):
    done = after(**env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_bug_of_ours_exits_zero_and_says_so(after, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys; sys.modules['epilog.stage'] = None\n")
    done = after(PYTHONPATH=str(site))
    assert done.returncode == 0
    assert "the epilog itself broke" in done.stderr


def test_a_bug_in_reading_the_job_does_not_keep_the_node_from_being_drained(
    after, tmp_path, fake_slurm, h100
):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys; sys.modules['epilog.act'] = None\n")
    h100.break_("xid-79")
    done = after(config="dry_run = false\n", program=fake_slurm.program, PYTHONPATH=str(site))
    assert done.returncode == 0
    assert "this is a bug" in done.stdout
    assert set(fake_slurm.drained) == {"node01"}


def test_nothing_is_left_running(after, home):
    users_file(home / "slurm-4711.out")
    before = _processes()
    after()
    assert _processes() - before == set()


def _processes() -> set[str]:
    return {p for p in os.listdir("/proc") if p.isdecimal() and _uid(p) == UID}


def _uid(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1
