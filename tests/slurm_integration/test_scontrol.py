import os
import signal
import subprocess
import time

import pytest

from slurm_integration.scontrol import Scontrol, Status, _collect


def program(folder, body: str) -> str:
    path = folder / "prog"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_ok_with_arguments_environment_and_no_stdin(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/x/slurm.conf")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    monkeypatch.setenv("LD_PRELOAD", "/evil.so")
    slurm = Scontrol(program(tmp_path, 'echo "$@"; /usr/bin/env; cat'), 5)
    answer = slurm.update_nodes("n[1-2]", {"State": "DRAIN", "Reason": "a b; $(x)", "Comment": ""})
    first, *env = answer.stdout.splitlines()
    assert answer.ok
    assert first == "update NodeName=n[1-2] State=DRAIN Reason=a b; $(x) Comment="
    assert {"SLURM_CONF=/x/slurm.conf", "TZ=UTC", "LC_ALL=C"} <= set(env)
    assert not any(line.startswith(("SLURM_CLUSTERS", "LD_PRELOAD")) for line in env)
    assert (slurm.reads, slurm.updates) == (0, 1)


def test_refusal_carries_code_and_words(tmp_path):
    answer = Scontrol(program(tmp_path, "echo 'no \033[31mright' >&2; exit 3"), 5).show_nodes()
    assert (answer.status, answer.code) == (Status.FAILED, 3)
    assert answer.trouble() == "scontrol failed (exit code 3): no  [31mright"


@pytest.mark.parametrize("path", ["/nowhere/scontrol", "relative/scontrol", "/etc/passwd", "/tmp"])
def test_missing_or_unusable(path):
    answer = Scontrol(path, 5).show_nodes()
    assert answer.status is Status.MISSING
    assert "could not be started" in answer.trouble()


def test_not_found_anywhere_says_what_to_set(monkeypatch):
    monkeypatch.setattr("slurm_integration.scontrol.FOLDERS", ("/nowhere",))
    assert "set scontrol in [drain]" in Scontrol().show_nodes().trouble()


def test_hanging_is_killed_with_its_children(tmp_path):
    mark = tmp_path / "pid"
    path = program(tmp_path, f"sleep 300 & echo $! > {mark}; trap '' TERM; wait")
    answer = Scontrol(path, 0.4).show_nodes()
    assert answer.status is Status.TIMED_OUT
    assert "timed out after 0.4 s" in answer.trouble()
    child = int(mark.read_text())
    for _ in range(100):
        if not alive(child):
            break
        time.sleep(0.02)
    assert not alive(child)


def test_deadline_that_has_passed_starts_nothing(tmp_path):
    mark = tmp_path / "mark"
    slurm = Scontrol(program(tmp_path, f"touch {mark}"), 5)
    assert slurm.show_nodes(deadline=time.monotonic() - 1).status is Status.TIMED_OUT
    assert not mark.exists()


def test_a_grandchild_that_keeps_the_pipe_does_not_hold_us(tmp_path):
    mark = tmp_path / "pid"
    path = program(tmp_path, f"setsid sleep 60 & echo $! > {mark}; echo NodeName=a; exit 0")
    answer = Scontrol(path, 30).show_nodes()
    os.kill(int(mark.read_text()), signal.SIGKILL)
    assert answer.ok
    assert answer.stdout == "NodeName=a\n"


def test_output_of_a_big_cluster_is_whole(tmp_path):
    path = program(tmp_path, "yes NodeName=0123456789 | head -n 600000; echo err >&2")
    answer = Scontrol(path, 30).show_nodes()
    assert answer.ok
    assert len(answer.stdout) == 600_000 * len("NodeName=0123456789\n")


def test_half_a_list_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("slurm_integration.scontrol.MAX_OUTPUT", 1000)
    answer = Scontrol(program(tmp_path, "yes"), 10).show_nodes()
    assert answer.status is Status.FAILED
    assert "more than 1000 bytes" in answer.trouble()


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_no_file_descriptor_is_leaked(tmp_path):
    path = program(tmp_path, "echo x")
    Scontrol(path, 5).show_nodes()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        Scontrol(path, 5).show_nodes()
    assert len(os.listdir("/proc/self/fd")) == before


def test_jobs_are_shown_updated_and_requeued_by_number(tmp_path):
    slurm = Scontrol(program(tmp_path, 'echo "$@"'), 5)
    assert slurm.show_job(17).stdout == "-o show job 17\n"
    text = "a b; $(x)"
    assert slurm.update_job(17, {"AdminComment": text}).stdout == (
        f"update JobId=17 AdminComment={text}\n"
    )
    assert slurm.requeue(17).stdout == "requeue 17\n"
    assert (slurm.reads, slurm.updates) == (1, 2)


def test_an_answer_that_is_there_counts_however_late_we_look():
    process = subprocess.Popen(
        ["echo", "State=IDLE"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.wait()
    collected: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    assert _collect(process, collected, time.monotonic() - 5)
    assert b"".join(collected[process.stdout.fileno()]) == b"State=IDLE\n"
    process.stdout.close()
    process.stderr.close()


def test_what_arrives_between_two_looks_at_a_program_that_ends_is_not_lost():
    reader, writer = os.pipe()
    silent, other = os.pipe()

    class Ending:
        """Writes its last words after the pipe was looked at, and is gone when asked."""

        def poll(self) -> int:
            if not told:
                os.write(writer, b"late")
                told.append(True)
            return 0

    told: list[bool] = []
    collected: dict[int, list[bytes]] = {reader: [], silent: []}
    assert _collect(Ending(), collected, time.monotonic() + 5)  # type: ignore[arg-type]
    assert b"".join(collected[reader]) == b"late"
    for fd in (reader, writer, silent, other):
        os.close(fd)
