"""What Slurm says of a job, understood."""

import pytest

from epilog.job_facts import (
    all_nodes,
    build_facts,
    failed,
    first_node,
    parse_show_job,
    slurms_end,
)
from healthcheck.model import Job

REAL = (
    "JobId=17 ArrayJobId=15 ArrayTaskId=2 JobName=my UserId=root(0) job UserId=ann(1000) "
    "GroupId=ann(1000) MCS_label=N/A Priority=1 Nice=0 Account=a QOS=normal "
    "JobState=TIMEOUT Reason=TimeLimit Dependency=(null) Requeue=1 Restarts=1 BatchFlag=1 "
    "ExitCode=0:0 RunTime=00:01:00 TimeLimit=1-02:03:04 StartTime=2026-01-02T03:04:05 "
    "EndTime=2026-01-02T03:05:05 NumNodes=2 NumCPUs=8 NumTasks=8 CPUs/Task=1 "
    "NtasksPerN:B:S:C=4:0:*:* Command=/home/ann/a b.sh WorkDir=/home/ann/my runs "
    "StdErr=/home/ann/x y.err StdIn=/dev/null StdOut=/home/ann/x y.out Power=\n"
)


def test_a_real_answer_is_taken_apart():
    shown = parse_show_job(REAL)
    assert (shown.array_job, shown.array_task) == ("15", "2")
    assert shown.state == "TIMEOUT"
    assert shown.scheduler_class == "scheduler/time-limit"
    assert shown.started_at == 1767323045.0
    assert shown.limit_s == 93784.0
    assert (shown.tasks, shown.tasks_per_node) == (8, 4)
    assert shown.work_dir == "/home/ann/my runs"
    assert (shown.stdout, shown.stderr) == ("/home/ann/x y.out", "/home/ann/x y.err")


@pytest.mark.parametrize(
    "text", ["", "\n", "JobId=1", "JobId=1 JobName=x", "\x00\xff", "TimeLimit=UNLIMITED", "=" * 99]
)
def test_odd_answers_are_nothing(text):
    assert parse_show_job(text).started_at is None
    assert parse_show_job(f"{text} UserId=u StartTime=Unknown NumTasks=x ").tasks is None


@pytest.mark.parametrize(
    ("folded", "first", "all_of_them"),
    [
        ("node01", "node01", ("node01",)),
        ("b2,a1", "b2", ("b2", "a1")),
        ("gpu[03-05,09],cpu1", "gpu03", ("gpu03", "gpu04", "gpu05", "gpu09", "cpu1")),
        ("r[1-2]n[1,3]", "r1n1", ("r1n1", "r1n3", "r2n1", "r2n3")),
        ("node10,node2", "node10", ("node10", "node2")),
    ],
)
def test_folded_lists_in_slurms_own_order(folded, first, all_of_them):
    assert first_node(folded) == first
    assert all_nodes(folded) == all_of_them


@pytest.mark.parametrize("folded", ["node[[[", "node[1-", "[", "a[1-99999999]"])
def test_lists_that_make_no_sense_are_bounded_and_no_crash(folded):
    first_node(folded)
    assert len(all_nodes(folded)) <= 65_536


def test_which_jobs_failed():
    assert not failed(Job(1))
    assert not failed(Job(1, exit_code=0, exit_signal=0, derived_exit_code=0))
    assert failed(Job(1, exit_code=1))
    assert failed(Job(1, exit_code=0, exit_signal=9))
    assert failed(Job(1, exit_code=0, derived_exit_code=1))


def test_tasks_are_spread_in_blocks_where_nothing_else_is_said():
    job = Job(1, nodelist="n[1-2]")
    facts = build_facts(job, parse_show_job("JobId=1 JobName=x UserId=u NumTasks=6 "))
    assert facts.tasks_per_node == (3, 3)
    assert build_facts(job, parse_show_job("")).tasks_per_node == ()


@pytest.mark.parametrize("place", ["JobName=x", "WorkDir=/home/ann/x", "Comment=x"])
def test_text_of_the_user_that_imitates_slurms_fields_is_not_believed(place):
    """A job's name, folder and comment are free text, and none of them may say how it ended."""
    forged = f"{place} JobState=NODE_FAIL Reason=NodeDown StdOut=/root/x NumTasks=1"
    real = "UserId=ann(1) GroupId=ann(1) JobState=COMPLETING Reason=None NumTasks=8 StdOut=/home/o"
    line = f"JobId=1 {forged} {real}" if place[0] == "J" else f"JobId=1 JobName=x {real} {forged}"
    shown = parse_show_job(line)
    told = (shown.state, shown.reason, shown.stdout, shown.tasks)
    assert not {"NODE_FAIL", "NodeDown", "/root/x", 1} & set(told)
    assert slurms_end(Job(1), shown) is None
