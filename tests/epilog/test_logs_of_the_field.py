"""Logs of failures as the libraries word them today, each a case in field/*.toml.

A case: `log`, the right `class`, and where the log tells them `ranks`, `nodes` and `local` (the
rank on its node); `drain` is no where nothing else is said. `given` and `tasks` are the job's
nodes and tasks a node, `exit_code` 1 where nothing else is said, `most` the greatest confidence
that is honest; `words` stand in the owner's message, `lacks` does not. A pasted log is a new test.
"""

import tomllib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from epilog.classify import Heard, classify, job_facts
from epilog.model import Attribution
from epilog.scan import Settings, scan_files

FOLDER = Path(__file__).with_name("field")
CASES = [
    case
    for path in sorted(FOLDER.glob("*.toml"))
    for case in tomllib.loads(path.read_text())["case"]
]
KEYS = {
    "name", "log", "class", "ranks", "nodes", "local", "drain", "given", "tasks", "most", "words",
    "lacks", "exit_code",
}  # fmt: skip


def answer(case: dict[str, Any]) -> Attribution:
    given = tuple(case.get("given", ()))
    facts = job_facts((case.get("exit_code", 1), 0), given, case.get("tasks"))
    log = case["log"].lstrip("\n").encode()
    return classify(facts, scan_files([("job.log", BytesIO(log))], Settings(nodes=given)), Heard())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_class_rank_and_node_are_right(case):
    found = answer(case)
    told = "\n".join(found.steps)
    assert found.klass == case["class"], told
    assert found.drain == case.get("drain", "no"), told
    assert found.confidence <= case.get("most", 1.0)
    if "ranks" in case:
        assert list(found.root.ranks) == case["ranks"], told
    if "nodes" in case:
        assert list(found.root.nodes) == case["nodes"], told
    assert case.get("words", "") in found.message
    assert "lacks" not in case or case["lacks"] not in found.message
    if "local" in case:
        roots = [e for e in found.evidence if e.klass == found.klass]
        assert {e.local_rank for e in roots} == {case["local"]}, told


def test_cases_are_whole_and_named_once():
    assert len(CASES) >= 50
    assert len({case["name"] for case in CASES}) == len(CASES)
    assert all(set(case) <= KEYS for case in CASES)
