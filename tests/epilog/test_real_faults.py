"""Every fault that was made for real on rank 2 is traced back to rank 2."""

from io import BytesIO
from pathlib import Path

import pytest

from epilog.classify import classify, job_facts
from epilog.model import Attribution, Drain
from epilog.scan import scan_files

FAULTS = Path(__file__).parent / "faults"

# Without the launcher's last words nothing but rank 2's silence tells of these.
SILENT = {
    "skip.srun.log": "unknown/peer-died",
    "kill.srun.log": "unknown/peer-died",
    "segv.srun.log": "unknown/peer-died",
    "exit0.srun.log": "unknown/peer-died",
}
CLASSES = {
    "raise": "user/python-exception",
    "nan": "user/nan",
    "shape": "user/desync",
    "skip": "user/desync",
    "other": "user/desync",
    "kill": "unknown/sigkill",
    "segv": "user/segfault",
    "hang": "unknown/hang",
    "disk": "infrastructure/fs-full",
    "exit0": "user/desync",
    "oom": "user/cuda-oom",
    "barrier": "user/desync",
}
LOGS = sorted(path.name for path in FAULTS.glob("*.log"))


def answer(name: str, nodes: tuple[str, ...] = (), tasks: int | None = None) -> Attribution:
    with (FAULTS / name).open("rb") as stream:
        return classify(job_facts(None, nodes, tasks), scan_files([(name, stream)]))


def test_there_are_two_logs_of_every_fault() -> None:
    assert sorted(f"{fault}.{how}.log" for fault in CLASSES for how in ("srun", "torchrun")) == LOGS


@pytest.mark.parametrize("name", LOGS)
def test_the_rank_that_began_it_is_named(name: str) -> None:
    found = answer(name)
    assert found.klass == SILENT.get(name, CLASSES[name.partition(".")[0]])
    assert found.root.ranks == (2,), "\n".join(found.steps)


@pytest.mark.parametrize("name", LOGS)
def test_its_node_follows_from_the_layout(name: str) -> None:
    found = answer(name, ("node01", "node02"), 2)
    assert found.root.nodes == ("node02",), "\n".join(found.steps)


@pytest.mark.parametrize("name", LOGS)
def test_no_fault_of_a_program_drains(name: str) -> None:
    found = answer(name)
    # The full disk of this fault is under /tmp, which is the node's own: that wants a look.
    local_disk = name.startswith("disk")
    assert found.drain is (Drain.REVIEW if local_disk else Drain.NO)


@pytest.mark.parametrize("name", LOGS)
def test_unknown_causes_are_told_with_low_confidence(name: str) -> None:
    found = answer(name)
    if found.category == "unknown":
        assert found.confidence <= 0.5


LAST_WORDS = {
    "raise": "srun: error: node02: task 2: Exited with exit code 1",
    "nan": "srun: error: node02: task 2: Exited with exit code 1",
    "shape": "srun: error: node02: task 2: Aborted (core dumped)",
    "skip": "",
    "other": "srun: error: node02: task 2: Exited with exit code 1",
    "kill": "srun: error: node02: task 2: Killed",
    "segv": "srun: error: node02: task 2: Segmentation fault (core dumped)",
    "hang": "srun: error: node02: task 2: Terminated",
    "disk": "srun: error: node02: task 2: Exited with exit code 1",
    "exit0": "",
    "oom": "srun: error: node02: task 2: Exited with exit code 1",
    "barrier": "srun: error: node02: task 2: Terminated",
}
"""What srun says of rank 2; of a task that ends well it says nothing."""


@pytest.mark.parametrize("fault", sorted(CLASSES))
def test_with_sruns_last_words_the_class_is_known_too(fault: str) -> None:
    log = (FAULTS / f"{fault}.srun.log").read_bytes()
    words = f"""{LAST_WORDS[fault]}
srun: launch/slurm: _step_signal: Terminating StepId=77.0
srun: error: node01: tasks 0-1: Exited with exit code 1
srun: error: node02: task 3: Exited with exit code 1
slurmstepd: error: *** STEP 77.0 ON node01 CANCELLED AT 2026-12-01T04:31:00 ***
"""
    scanned = scan_files([("job.log", BytesIO(log + words.encode()))])
    found = classify(job_facts((1, 0), ("node01", "node02"), 2), scanned)
    assert found.klass == CLASSES[fault], "\n".join(found.steps)
    assert found.root.ranks == (2,)
    assert found.root.nodes == ("node02",)
