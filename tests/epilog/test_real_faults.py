"""Every fault that was made for real on rank 2 is traced back to rank 2."""

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
