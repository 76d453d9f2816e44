"""The goals on the labelled corpus, as `make accuracy` scores them."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.accuracy import CORPUS, GOALS, Row, drain_right, rows, scores
from epilog.model import Attribution, Drain, Root


@pytest.fixture(scope="module")
def scored() -> list[Row]:
    return rows(CORPUS)


def test_every_log_of_the_corpus_has_a_label_and_every_label_a_log() -> None:
    with (CORPUS / "index.tsv").open(newline="") as file:
        named = {row["file"] for row in csv.DictReader(file, delimiter="\t")}
    assert named == {path.name for path in CORPUS.glob("*.log")}
    assert len(named) == 74


@pytest.mark.parametrize("goal", GOALS)
def test_goals_are_reached(scored: list[Row], goal: str) -> None:
    score = scores(scored)[goal]
    assert score.of > 0
    assert score.share >= GOALS[goal], "\n".join(score.wrong)


def test_no_job_log_drains(scored: list[Row]) -> None:
    for row in scored:
        if row.label["kind"] == "job-log":
            assert row.answer.drain is not Drain.YES, row.name


def test_unknown_is_never_claimed_with_confidence(scored: list[Row]) -> None:
    for row in scored:
        if row.answer.category == "unknown":
            assert row.answer.confidence <= 0.5, row.name


def test_every_answer_tells_a_story_and_what_to_do(scored: list[Row]) -> None:
    for row in scored:
        assert row.answer.chain, row.name
        assert len(row.answer.message) > 40, row.name
        assert row.answer.steps[0].startswith("0 "), row.name
        assert row.answer.steps[-1].startswith("8 drain"), row.name


@pytest.mark.parametrize(
    ("kind", "label", "said", "right"),
    [
        ("job-log", "yes", Drain.REVIEW, True),
        ("job-log", "yes", Drain.YES, False),
        ("job-log", "yes", Drain.NO, False),
        ("kernel-log", "yes", Drain.YES, True),
        ("kernel-log", "yes", Drain.REVIEW, False),
        ("job-log", "review", Drain.NO, True),
        ("job-log", "review", Drain.YES, False),
        ("job-log", "no", Drain.REVIEW, False),
        ("job-log", "no", Drain.NO, True),
    ],
)
def test_drains_are_scored_as_the_corpus_says(
    kind: str, label: str, said: Drain, right: bool
) -> None:
    answer = Attribution("hardware/gpu-ecc", 0.5, Root(), said, "")
    assert drain_right(Row("x", {"kind": kind, "drain": label}, answer)) is right


def test_a_folder_of_ones_own_is_scored(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried\n")
    (tmp_path / "index.tsv").write_text(
        "file\tkind\tclass\troot_rank\troot_node\tdrain\tlabel\n"
        "a.log\tjob-log\tuser/cuda-oom\t3\t\tno\tconfirmed\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| class | 1 | 1 | 100.0% | 95% |" in done.stdout
