"""Carrying out what was decided: requeue, comment, suspicions, diagnosis, as the site wishes."""

import json
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from epilog.act import carry_out
from epilog.decide.store import load
from epilog.investigation import untrusted
from epilog.leftovers import end, in_cgroup, on_gpus
from epilog.model import Attribution, Drain, Evidence, JobFacts, Role, Root, TaskExit
from epilog.neighbours import drained_for
from epilog.postflight import fact_of_drain, node_evidence
from epilog.reader.errand import Found
from epilog.scan import ScanResult
from epilog.settings import EpilogSettings, RequeueSettings, settings_of
from epilog.state import keep_report, kept_jobs, read_report
from healthcheck.config import Config, DrainSettings
from healthcheck.model import Gpu, Job, KernelEvent, KernelLog, Snapshot, fail, warn
from healthcheck.model.gpu import GpuProcess
from slurm_integration.scontrol import Scontrol

JOB = JobFacts(job_id=4711, uid=1000, nodes=("node01", "node02"))


def proof(node="node02", klass="hardware/gpu-off-bus"):
    return Evidence("kernel log", 1, Role.ROOT, klass, "Xid 79", host=node, fact=True)


def answer(klass="hardware/gpu-off-bus", drain=Drain.YES, node="node02", evidence=None):
    told = (proof(node, klass),) if evidence is None else evidence
    return Attribution(klass, 0.9, Root((3,), (node,)), drain, "a GPU fell off the bus", told)


def act(slurm, tmp_path, attribution, *, dry_run=False, facts=JOB, **settings):
    program = getattr(slurm, "program", slurm)
    config = Config(
        dry_run=dry_run, drain=DrainSettings(scontrol=str(program), jitter_s=0, max_percent=100)
    )
    return carry_out(
        attribution, facts, config, EpilogSettings(**settings), str(tmp_path / "state"),
        time.monotonic() + 240,
    )  # fmt: skip


AGAIN = RequeueSettings(enabled=True)


def test_proven_hardware_requeues_where_the_site_asks_for_it(slurm, tmp_path):
    done = act(slurm, tmp_path, answer(), requeue=AGAIN)
    assert done.requeued
    assert slurm.calls == ["requeue 4711"]
    assert "job 4711 requeued" in done.said


@pytest.mark.parametrize(
    ("attribution", "settings", "facts"),
    [
        (answer(), {}, JOB),
        (answer("user/nan", Drain.NO), {"requeue": AGAIN}, JOB),
        (answer("scheduler/time-limit", Drain.NO), {"requeue": AGAIN}, JOB),
        (answer(drain=Drain.REVIEW, evidence=()), {"requeue": AGAIN}, JOB),
        (answer(), {"requeue": AGAIN}, msgspec.structs.replace(JOB, restart_count=2)),
        (answer(), {"requeue": RequeueSettings(enabled=True, mode="expedite")}, JOB),
    ],
)
def test_nothing_else_is_requeued(slurm, tmp_path, attribution, settings, facts):
    assert not act(slurm, tmp_path, attribution, facts=facts, **settings).requeued
    assert "requeue 4711" not in slurm.calls


def test_a_dry_run_says_what_it_would_requeue(slurm, tmp_path):
    done = act(slurm, tmp_path, answer(), dry_run=True, requeue=AGAIN)
    assert not done.requeued
    assert "would requeue job 4711" in " ".join(done.said)
    assert slurm.calls == []


def test_the_comment_is_one_clean_line(slurm, tmp_path):
    bad = msgspec.structs.replace(answer(), message="a\x1b[31m\nb" * 500)
    act(slurm, tmp_path, bad, admin_comment=True)
    (call,) = slurm.calls
    assert call.startswith("update JobId=4711 AdminComment=flightcheck: hardware/gpu-off-bus: a b")
    assert "\x1b" not in call
    assert len(call) < 500


def suspected(job_id, uid, slurm, tmp_path, **settings):
    facts = msgspec.structs.replace(JOB, job_id=job_id, uid=uid)
    text = (msgspec.structs.replace(proof(), fact=False),)
    return act(slurm, tmp_path, answer(drain=Drain.REVIEW, evidence=text), facts=facts, **settings)


def test_one_suspicion_drains_nothing_two_of_unrelated_jobs_drain_for_diagnosis(
    fake_slurm, tmp_path
):
    suspected(1, 1000, fake_slurm, tmp_path)
    suspected(2, 1000, fake_slurm, tmp_path)  # the same user may write what he likes twice
    assert fake_slurm.drained == {}
    assert {s.job_id for s in load(str(tmp_path / "state"))[0]} == {1, 2}
    done = suspected(3, 1001, fake_slurm, tmp_path)
    assert done.decision.diagnose == ("node02",)
    assert "two unrelated jobs" in fake_slurm.drained["node02"]
    assert fake_slurm.drained["node02"].startswith("flightcheck: degraded suspected: ")


def test_a_site_can_forbid_drains_for_diagnosis(fake_slurm, tmp_path):
    suspected(1, 1000, fake_slurm, tmp_path, confirm_drains=False)
    suspected(2, 1001, fake_slurm, tmp_path, confirm_drains=False)
    assert fake_slurm.drained == {}


def ask(fake_slurm, wait=0.0, job=4711):
    slurm = Scontrol(fake_slurm.program, 5)
    until = time.monotonic() + wait
    return drained_for(slurm, "node01,node02", "node01", job, until)


def test_another_nodes_own_drain_for_this_job_is_a_fact_of_it(fake_slurm):
    fake_slurm.drain("node02", "flightcheck: no-go gpu-ecc: 0000:1b:00.0: 2 errors [job 4711]")
    (fact,), note = ask(fake_slurm)
    assert (fact.host, fact.klass, fact.fact) == ("node02", "hardware/gpu-ecc", True)
    assert note is None


@pytest.mark.parametrize(
    "reason",
    [
        "flightcheck: no-go gpu-ecc: 0000:1b:00.0: 2 errors [job 4712]",
        "flightcheck: no-go gpu-ecc: 0000:1b:00.0: 2 errors",
        "somebody else's [job 4711]",
    ],
)
def test_other_drains_are_no_facts_of_this_job(fake_slurm, reason):
    fake_slurm.drain("node02", reason)
    assert ask(fake_slurm) == ([], None)


def test_slurm_that_does_not_answer_is_a_note(fake_slurm):
    fake_slurm.mood(refuse="show")
    facts, note = ask(fake_slurm)
    assert facts == []
    assert "could not be asked" in note


@pytest.mark.parametrize(
    ("check", "reason", "klass"),
    [
        ("xid", "0000:b3:00.0: Xid 79 (GPU has fallen off the bus)", "hardware/gpu-off-bus"),
        ("xid", "0000:b3:00.0: Xid 48 (DBE)", "hardware/gpu-ecc"),
        ("xid", "0000:b3:00.0: Xid 9999 (news)", "hardware/gpu-hang"),
        ("sxid", "SXid 20034", "hardware/gpu-nvlink"),
        ("ib-ports", "mlx5_0/1 is down", "network/ib-link"),
        ("gpu-temperature", "0000:b3:00.0: 95 °C", None),
        (None, "somebody shortened it", None),
    ],
)
def test_the_check_that_drained_a_node_gives_the_class(check, reason, klass):
    fact = fact_of_drain("n", check, reason)
    assert (fact.klass if fact else None) == klass


def test_peers_are_waited_for_while_their_epilogs_run(fake_slurm):
    ask(fake_slurm, wait=3600)  # nobody is on its way
    fake_slurm.set("node02", state="IDLE+COMPLETING")
    started = time.monotonic()
    assert ask(fake_slurm, wait=1.5) == ([], None)
    assert time.monotonic() - started >= 1


def snapshot(**more):
    return Snapshot(node="node01", taken_at=1000.0, boot_id="b", uptime_s=900.0, **more)


def test_failing_findings_and_kernel_lines_become_facts_of_this_node():
    event = KernelEvent("xid", 1, 850.0, "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen "
                        "off the bus.", code=79, subject="0000:1b:00.0")  # fmt: skip
    node = snapshot(kernel_log=KernelLog(2, (event,)))
    findings = [
        ("gpu-count", fail("node", "7 of 8 GPUs (missing 0000:1b:00.0)")),
        ("gpu-ecc", warn("0000:1b:00.0", "one error")),
        ("gpu-temperature", fail("0000:1b:00.0", "hot")),
        ("nvlink-links", fail("0000:2b:00.0", "link down")),
    ]
    facts = node_evidence(node, findings, frozenset({("nvlink-links", "0000:2b:00.0")}), None)
    assert all(e.fact and e.host == "node01" for e in facts)
    assert {e.klass for e in facts} == {"hardware/gpu-off-bus"}
    kernel = next(e for e in facts if e.file == "kernel log")
    assert kernel.at == pytest.approx(950.0)
    count = next(e for e in facts if e.file == "post-flight")
    assert count.fields["gpu"] == "0000:1b:00.0"


def test_events_before_the_job_are_not_its_own():
    event = KernelEvent("xid", 1, 100.0, "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off "
                        "the bus.", code=79, subject="0000:1b:00.0")  # fmt: skip
    node = snapshot(kernel_log=KernelLog(2, (event,)))
    assert node_evidence(node, [], frozenset(), since=600.0) == []
    assert node_evidence(node, [], frozenset(), since=210.0)


def test_nothing_that_was_read_without_rights_counts_as_a_fact():
    forged = Found(
        scan=ScanResult((proof(),), exits=(TaskExit(1, "n", fact=True),), context=(proof(),))
    )
    clean = untrusted(forged).scan
    assert not any(e.fact for e in (*clean.evidence, *clean.exits, *clean.context))


def sleeper(uid=None):
    return subprocess.Popen(["/bin/sleep", "60"], user=uid, stdout=subprocess.DEVNULL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user")
def test_leftovers_of_the_jobs_user_are_ended_and_no_others():
    mine, theirs = sleeper(23_456), sleeper(23_457)
    try:
        ended, notes = end([mine.pid, theirs.pid, 1, os.getpid(), 4_000_000], 23_456)
        assert ended == [mine.pid]
        assert mine.wait(240) == -signal.SIGKILL
        assert theirs.poll() is None
        assert "belongs to uid 23457" in notes[0]
        assert end([theirs.pid], 0)[0] == []
    finally:
        for process in (mine, theirs):
            process.kill()
            process.wait()


def test_processes_are_found_by_the_jobs_cgroup_and_gpus(tmp_path):
    for pid, line in (
        ("10", "1:name=x:/slurm/uid_1000/job_4711/step_0/task_0"),
        ("11", "0::/system.slice/slurmstepd.scope/job_4711/step_batch"),
        ("12", "0::/system.slice/slurmstepd.scope/job_47110"),
        ("13", "0::/user.slice"),
        ("x", ""),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(line + "\n")
    (tmp_path / "14").mkdir()
    assert in_cgroup(4711, str(tmp_path)) == [10, 11]
    gpus = (
        Gpu(0, "a", minor_number=0, processes=(GpuProcess(5, uid=1000), GpuProcess(6, uid=7))),
        Gpu(1, "b", minor_number=1, processes=(GpuProcess(8, uid=1000),)),
    )
    node = snapshot(gpus=gpus, job=Job(1, uid=1000, gpu_minors=(0,)))
    assert on_gpus(node, 1000) == [5]


def test_reports_are_bounded_in_number(tmp_path):
    for job in range(1, 8):
        assert keep_report(str(tmp_path), job, b"{}", "t", most=3) is None
        os.utime(tmp_path / "jobs" / str(job), (job, job))
    assert len(kept_jobs(str(tmp_path))) <= 4
    assert 7 in kept_jobs(str(tmp_path))
    assert read_report(str(tmp_path), 7, "report.txt") == b"t"
    (tmp_path / "file").write_text("")
    assert "not kept" in keep_report(str(tmp_path / "file"), 1, b"", "", 3)


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ({"deadline_s": -1}, "deadline_s"),
        ({"no_such": 1}, "no_such"),
        ({"requeue": {"enabled": "yes"}}, "requeue"),
        ({"shared_dir": "relative"}, "shared_dir"),
        ({"log_files": ["a\x00b"]}, "log_files"),
        ([1], "expected"),
    ],
)
def test_a_refused_table_means_defaults_that_do_nothing(raw, word):
    settings, (note,) = settings_of(raw)
    assert word.lower() in note.lower()
    assert not (settings.confirm_drains or settings.requeue.enabled or settings.kill_leftovers)


def test_a_table_of_the_site_is_taken():
    raw = {"requeue": {"enabled": True, "most": 1}, "log_files": ["logs/%j/*"], "deadline_s": 9}
    settings, notes = settings_of(raw)
    assert notes == []
    assert (settings.requeue.most, settings.deadline_s) == (1, 9)
    assert settings_of(None) == (EpilogSettings(), [])


def run_report(*argv, folder):
    code = "from epilog.commands.report import command; command()"
    return subprocess.run(
        [sys.executable, "-c", code, *argv, "--state-dir", str(folder)],
        capture_output=True, text=True, cwd="/",
    )  # fmt: skip


def test_the_command_shows_what_was_kept(tmp_path):
    keep_report(str(tmp_path), 4711, json.dumps({"class": "user/nan"}).encode(), "words\n", 9)
    assert run_report("4711", folder=tmp_path).stdout == "words\n"
    assert json.loads(run_report("4711", "--json", folder=tmp_path).stdout)["class"] == "user/nan"
    assert run_report(folder=tmp_path).stdout == "4711\n"
    missing = run_report("12", folder=tmp_path)
    assert missing.returncode != 0
    assert "first node" in missing.stderr
