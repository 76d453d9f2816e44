"""Failures composed from the libraries' own wordings, with varied versions, ranks and prefixes.

None of them stems from a file of the corpus: they hold what the rules promise of cases that
nobody has labelled yet.
"""

import sys
from io import BytesIO
from pathlib import Path

import pytest

from epilog.classify import Heard, classify, job_facts, node_facts
from epilog.model import Attribution, Drain
from epilog.scan import Settings, scan_files

sys.path.insert(0, str(Path(__file__).parent))
from cases_of_hardware import hardware, network
from cases_of_programs import attempts, divergence, named_culprits, own_causes
from cases_of_the_scheduler import scheduler
from cases_of_timeouts import chains, timeouts
from job_wordings import Job


def answer(job: Job) -> Attribution:
    facts = job_facts(job.exit_code, job.given, job.tasks)
    scanned = scan_files([("job.log", BytesIO(job.log.encode()))], Settings(nodes=job.given))
    heard = [
        fact
        for node, text in job.kernel
        for fact in node_facts(f"kernel@{node}", BytesIO(text.encode()), node, None)
    ]
    return classify(facts, scanned, Heard(tuple(heard)))


JOBS = [
    *timeouts(),
    *chains(),
    *own_causes(),
    *named_culprits(),
    *divergence(),
    *scheduler(),
    *network(),
    *hardware(),
    *attempts(),
]


@pytest.mark.parametrize("job", JOBS, ids=[job.name for job in JOBS])
def test_cause_and_culprit_are_found(job: Job) -> None:
    found = answer(job)
    assert found.klass == job.klass, "\n".join(found.steps)
    if job.ranks is not None:
        assert found.root.ranks == job.ranks, "\n".join(found.steps)
    if job.nodes is not None:
        assert found.root.nodes == job.nodes, "\n".join(found.steps)
    assert found.drain is job.drain, "\n".join(found.steps)
    assert job.least <= found.confidence <= job.most


def test_there_are_at_least_sixty_of_them() -> None:
    assert len(JOBS) >= 60
    assert len({job.name for job in JOBS}) == len(JOBS)


@pytest.mark.parametrize("job", JOBS, ids=[job.name for job in JOBS])
def test_text_alone_never_drains(job: Job) -> None:
    found = answer(job._replace(kernel=()))
    assert found.drain is not Drain.YES


def _stands_alone(line: str) -> bool:
    return not line or (line.startswith("[rank") and "Traceback" not in line)


ANY_ORDER = [job for job in JOBS if job.log and all(map(_stands_alone, job.log.split("\n")))]


@pytest.mark.parametrize("job", ANY_ORDER, ids=[job.name for job in ANY_ORDER])
def test_order_of_lines_does_not_change_the_answer(job: Job) -> None:
    other = job._replace(log="\n".join(reversed(job.log.split("\n"))))
    assert answer(other).root == answer(job).root
    assert answer(other).klass == job.klass


def test_several_of_them_can_be_put_in_any_order() -> None:
    assert len(ANY_ORDER) >= 8
