"""Jobs that Slurm itself ended leave the exit code 0: what the hook makes of them."""

import json
import os
import time

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user")
UID = 23_456
LIMIT = "slurmstepd: error: *** JOB 4711 ON node01 CANCELLED AT {} DUE TO TIME LIMIT ***\n"
CANCEL = "slurmstepd: error: *** JOB 4711 ON node01 CANCELLED AT {} ***\n"
NODE = "slurmstepd: error: *** JOB 4711 ON node01 CANCELLED AT {} DUE TO NODE FAILURE ***\n"
END = time.time() - 60.0


def iso(seconds, form="%Y-%m-%dT%H:%M:%S"):
    return time.strftime(form, time.localtime(seconds))


def log_of(home, text, name="slurm-4711.out"):
    path = home / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    for owned in (path.parent, path):
        os.chown(owned, UID, UID)
    return path


def report_of(node):
    path = node.state / "jobs/4711/report.json"
    return json.loads(path.read_text()) if path.exists() else None


def steps(stops, begin=END - 4000):
    """Lines of four ranks every 20 s, each until the second that `stops` tells."""
    return "".join(
        f"[rank{rank}]: {iso(begin + second, '%Y-%m-%d %H:%M:%S')} INFO step {second // 20} done\n"
        for second in range(0, max(stops) + 1, 20)
        for rank, stop in enumerate(stops)
        if second <= stop
    )


def test_the_owner_of_a_job_that_hung_until_its_limit_learns_who_fell_silent(
    after, slurm, h100, home
):
    slurm.job(JobState="TIMEOUT")
    log_of(home, steps((600, 600, 300, 600)) + LIMIT.format(iso(END)))
    line = {"rank": 2, "host": "node02", "local_rank": 0, "gpu": "GPU-7f", "pid": 99}
    log_of(home, json.dumps(line) + "\n", "flightcheck-4711/ranks-4711-0-node02.jsonl")
    done = after("0:0", SLURM_JOB_NODELIST="node[01-02]")
    assert done.returncode == 0, done.stdout + done.stderr
    report = report_of(h100)
    assert report["class"] == "scheduler/time-limit"
    assert report["root"]["ranks"] == [2]
    assert report["root"]["nodes"] == ["node02"]
    assert "seems to have hung" in report["message"]
    assert report["drain"] == "no"
    assert report["decision"]["requeued"] is False
    assert not any("requeue" in call for call in slurm.calls)


def test_a_job_that_worked_until_its_limit_is_told_to_ask_for_more_time(after, slurm, h100, home):
    slurm.job(JobState="TIMEOUT")
    log_of(home, steps((3980,) * 4) + LIMIT.format(iso(END)))
    after("0:0")
    report = report_of(h100)
    assert report["class"] == "scheduler/time-limit"
    assert report["root"]["ranks"] == []
    assert "hung" not in report["message"]
    assert "more time" in report["message"]


@pytest.mark.parametrize(
    ("words", "state", "klass"),
    [
        (CANCEL, "CANCELLED", "scheduler/cancelled"),
        (NODE, "NODE_FAIL", "scheduler/node-failure"),
    ],
)
def test_slurms_own_state_gives_the_class(after, slurm, h100, home, words, state, klass):
    slurm.job(JobState=state)
    log_of(home, "step 1 done\n" + words.format(iso(END)))
    after("0:0")
    assert report_of(h100)["class"] == klass


def test_words_that_a_user_wrote_are_only_a_reason_to_ask(after, slurm, h100, home):
    slurm.job(JobState="COMPLETED")
    log_of(home, LIMIT.format(iso(END)))
    done = after("0:0")
    assert done.returncode == 0
    assert "failed" not in done.stdout
    assert slurm.calls == ["-o show job 4711"]
    assert report_of(h100) is None
