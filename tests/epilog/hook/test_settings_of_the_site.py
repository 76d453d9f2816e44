"""`[epilog]` in the hook's own configuration file: each setting changes what the hook does."""

import json
import os

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user")
UID = 23_456
ERROR = "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: bad shape\n"
LOST = "[rank3]: RuntimeError: CUDA error: unknown error\n"
ACTS = "dry_run = false\n"


def users_file(path, text=ERROR):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for owned in (path.parent, path):
        os.chown(owned, UID, UID)
    return path


def report_of(node, job=4711):
    return json.loads((node.state / f"jobs/{job}/report.json").read_text())


# --- --requeue=expedite -------------------------------------------------------------------------

EXPEDITE = ACTS + '[epilog.requeue]\nmode = "expedite"\n'


@pytest.mark.parametrize("nodes", ["node01", "node[00-01]"], ids=["the first node", "another node"])
def test_in_expedite_mode_the_epilog_of_the_broken_node_fails(after, fake_slurm, h100, home, nodes):
    """Slurm 25.11 restarts the job at once where an epilog failed, whichever node's it was."""
    users_file(home / "slurm-4711.out", LOST)
    h100.break_("xid-79")
    done = after(config=EXPEDITE, program=fake_slurm.program, SLURM_JOB_NODELIST=nodes)
    assert done.returncode != 0, done.stdout + done.stderr
    assert fake_slurm.drained["node01"].startswith("flightcheck: no-go ")


@pytest.mark.parametrize(
    ("config", "code", "broken"),
    [
        (EXPEDITE, "1:0", False),
        (EXPEDITE, "0:0", True),
        (EXPEDITE.removeprefix(ACTS), "1:0", True),
        (ACTS + "[epilog.requeue]\nenabled = false\n", "1:0", True),
        (EXPEDITE + "no_such = 1\n", "1:0", True),
    ],
    ids=["a fault of software", "a job that ended well", "a dry run", "normal mode", "refused"],
)
def test_nothing_else_lets_the_epilog_fail(after, fake_slurm, h100, home, config, code, broken):
    users_file(home / "slurm-4711.out")
    if broken:
        h100.break_("xid-79")
    done = after(code, config=config, program=fake_slurm.program)
    assert done.returncode == 0, done.stdout + done.stderr


# --- what is read -------------------------------------------------------------------------------


def test_a_site_that_wants_no_logs_read_gets_none_read(after, slurm, h100, home):
    users_file(home / "slurm-4711.out")
    done = after(config="[epilog]\nread_logs = false\n")
    assert done.returncode == 0
    assert "failed" not in done.stdout
    assert slurm.calls == []
    assert not (h100.state / "jobs").exists()


def test_further_logs_are_read_where_the_site_says_so(after, slurm, h100, home):
    users_file(home / "slurm-4711.out", "step 1\n")
    users_file(home / "logs" / "train-4711" / "rank_3.log")
    slurm.job(JobName="train")
    after(config='[epilog]\nlog_files = ["logs/%x-%j/*.log"]\n')
    report = report_of(h100)
    assert report["class"] == "user/python-exception"
    assert str(home / "logs/train-4711/rank_3.log") in [file["file"] for file in report["files"]]


def test_of_a_log_beyond_the_bound_head_and_tail_are_read(after, h100, home):
    users_file(home / "slurm-4711.out", "step 1 done\n" * 200_000 + ERROR)
    after(config="[epilog]\nmax_log_mib = 1\n")
    report = report_of(h100)
    assert report["class"] == "user/python-exception"
    assert any("left out" in note for note in report["notes"]), report["notes"]


def test_a_rank_map_elsewhere_leads_to_the_node_and_its_gpu(after, h100, home):
    users_file(home / "slurm-4711.out")
    line = {"rank": 3, "host": "node07", "local_rank": 1, "gpu": "GPU-7f", "pid": 99}
    users_file(home / "maps" / "4711" / "ranks-4711-0-node07.jsonl", json.dumps(line) + "\n")
    nodes = "node01,node07"
    after(config='[epilog]\nrank_maps = ["maps/%j/ranks-*.jsonl"]\n', SLURM_JOB_NODELIST=nodes)
    assert report_of(h100)["root"]["nodes"] == ["node07"]


# --- what people get ----------------------------------------------------------------------------


def test_a_site_may_leave_its_users_alone(after, h100, home):
    users_file(home / "slurm-4711.out")
    after(config="[epilog]\ntell_user = false\n")
    assert report_of(h100)["class"] == "user/python-exception"
    assert not (home / "flightcheck-4711.txt").exists()


def test_the_cause_stands_in_the_jobs_comment_where_the_site_wants_it(after, slurm, h100, home):
    users_file(home / "slurm-4711.out")
    after(config="[epilog]\nadmin_comment = true\n")
    assert any("AdminComment=flightcheck: user/python-exception" in call for call in slurm.calls)


def test_reports_are_kept_in_the_folder_that_all_nodes_see(after, h100, home, tmp_path):
    users_file(home / "slurm-4711.out")
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o700)
    after(config=f'[epilog]\nshared_dir = "{shared}"\n')
    assert json.loads((shared / "jobs/4711/report.json").read_text())["class"]
    assert not (h100.state / "jobs/4711").exists()


def test_no_more_reports_are_kept_than_the_site_wants(after, h100, home):
    for job in ("4711", "4712", "4713"):
        users_file(home / f"slurm-{job}.out")
        after(config="[epilog]\nkeep_reports = 2\n", SLURM_JOB_ID=job)
    assert sorted(path.name for path in (h100.state / "jobs").iterdir()) == ["4712", "4713"]


def test_a_refused_table_is_told_and_the_job_is_explained_all_the_same(after, h100, home):
    users_file(home / "slurm-4711.out")
    done = after(config="[epilog]\ndeadline_s = -1\n")
    assert done.returncode == 0
    assert "deadline_s" in done.stdout + done.stderr
    assert report_of(h100)["class"] == "user/python-exception"
