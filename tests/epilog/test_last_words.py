"""The last words of a job: a busy machine is waited for, a dead file system is not."""

import multiprocessing
import os
import threading
import time

import pytest

from epilog import last_words
from epilog.last_words import LastWords

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user")
UID = 23_456
WORDS = "step 9\nslurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"


@pytest.fixture
def output(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    path = tmp_path / "slurm-7.out"
    path.write_text(WORDS)
    os.chown(path, UID, UID)
    return path


def burn(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


@pytest.fixture
def busy_processor():
    """A processor on which three processes never pause; ended after a while or with the test."""
    cpu = min(os.sched_getaffinity(0))
    burners = [multiprocessing.Process(target=burn, args=(cpu,), daemon=True) for _ in range(3)]
    for burner in burners:
        burner.start()
    end = threading.Timer(0.7, lambda: [burner.kill() for burner in burners])
    end.start()
    yield cpu
    end.cancel()
    for burner in burners:
        burner.kill()
        burner.join()


def test_slurms_words_are_heard_on_a_node_whose_processors_are_taken(output, busy_processor):
    words = LastWords(UID, UID, None, (str(output),))
    os.sched_setaffinity(words._pid, {busy_processor})
    os.sched_setscheduler(words._pid, os.SCHED_IDLE, os.sched_param(0))
    assert words.heard() is True


def test_a_job_that_ended_by_itself_leaves_no_such_words(output):
    output.write_text("step 9\ndone\n")
    assert LastWords(UID, UID, None, (str(output),)).heard() is False


def test_an_output_that_gives_no_answer_is_not_waited_for(output, monkeypatch):
    monkeypatch.setattr(last_words, "_told", lambda *_: time.sleep(1000))
    words = LastWords(UID, UID, None, (str(output),))
    assert words.heard() is None
    _, status = os.waitpid(words._pid, 0)
    assert os.WIFSIGNALED(status)
