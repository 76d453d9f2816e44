"""How often `flightcheck classify` is right on labelled logs: `make accuracy`.

Classes, root ranks, root nodes and drains are scored apart. The folder holds logs and an
`index.tsv` with the columns file, kind, class, root_rank, root_node, drain, label.
"""

import argparse
import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from epilog.attribute.places import short
from epilog.classify import Heard, classify, job_facts, node_facts
from epilog.model import Attribution, Drain
from epilog.scan import ScanResult, Settings, scan_files

CORPUS = Path(__file__).parent.parent / "tests" / "epilog" / "corpus"
SURE = ("confirmed", "probable")
MOST_ON_UNCONFIRMED = 0.7
GOALS = {"class": 0.95, "root rank": 0.90, "root node": 0.90, "drain": 1.0, "caution": 1.0}


class Row(NamedTuple):
    """One labelled log with the answer to it."""

    name: str
    label: dict[str, str]
    answer: Attribution


class Score(NamedTuple):
    """How many of those that could be scored were right, and what was wrong."""

    right: int
    of: int
    wrong: tuple[str, ...]

    @property
    def share(self) -> float:
        """From 0 to 1; 1 where nothing could be scored."""
        return self.right / self.of if self.of else 1.0


def answer_for(folder: Path, label: dict[str, str]) -> Attribution:
    """Classify one file: a kernel log as facts of its node, a job's log as text."""
    path = folder / label["file"]
    if label["kind"] == "kernel-log":
        node = label["root_node"] or "node01"
        with path.open("rb") as file:
            facts = node_facts(label["file"], file, node)
        return classify(job_facts(), ScanResult(), Heard(tuple(facts)))
    with path.open("rb") as stream:
        return classify(job_facts(), scan_files([(label["file"], stream)], Settings()))


def rows(folder: Path) -> list[Row]:
    """Every labelled log of a folder, classified."""
    with (folder / "index.tsv").open(newline="") as file:
        labels = list(csv.DictReader(file, delimiter="\t"))
    return [Row(label["file"], label, answer_for(folder, label)) for label in labels]


def _ranks(text: str) -> set[int]:
    return {int(part) for part in text.split(",") if part.strip()}


def class_right(row: Row) -> bool | None:
    """Whether the class is the label's; None where the label is not sure."""
    return row.answer.klass == row.label["class"] if row.label["label"] in SURE else None


def ranks_right(row: Row) -> bool | None:
    """Whether exactly the label's ranks are named; None where it names none or is not sure."""
    if row.label["label"] not in SURE or not row.label["root_rank"]:
        return None
    return set(row.answer.root.ranks) == _ranks(row.label["root_rank"])


def nodes_right(row: Row) -> bool | None:
    """Whether exactly the label's node is named; None where it names none or is not sure."""
    if row.label["label"] not in SURE or not row.label["root_node"]:
        return None
    wanted = {short(part) for part in row.label["root_node"].split(",")}
    return set(row.answer.root.nodes) == wanted


def drain_right(row: Row) -> bool:
    """no: only no; review: review or no; yes: yes on a kernel log, review on a job's log."""
    said, label = row.answer.drain, row.label["drain"]
    if label == "no":
        return said is Drain.NO
    if label == "review":
        return said in (Drain.REVIEW, Drain.NO)
    return said is (Drain.YES if row.label["kind"] == "kernel-log" else Drain.REVIEW)


def cautious(row: Row) -> bool | None:
    """On labels that are not confirmed nothing is claimed with confidence above 0.7."""
    if row.label["label"] in SURE:
        return None
    return row.answer.confidence <= MOST_ON_UNCONFIRMED


JUDGES: dict[str, tuple[Callable[[Row], bool | None], Callable[[Row], str]]] = {
    "class": (class_right, lambda r: f"{r.answer.klass}, label {r.label['class']}"),
    "root rank": (ranks_right, lambda r: f"{r.answer.root.ranks}, label {r.label['root_rank']}"),
    "root node": (nodes_right, lambda r: f"{r.answer.root.nodes}, label {r.label['root_node']}"),
    "drain": (drain_right, lambda r: f"{r.answer.drain.value}, label {r.label['drain']}"),
    "caution": (cautious, lambda r: f"{r.answer.klass} with {r.answer.confidence}"),
}


def scores(scored: list[Row]) -> dict[str, Score]:
    """All five scores."""
    result = {}
    for name, (judge, tell) in JUDGES.items():
        judged = [(row, right) for row in scored if (right := judge(row)) is not None]
        wrong = tuple(f"{row.name}: {tell(row)}" for row, right in judged if not right)
        result[name] = Score(len(judged) - len(wrong), len(judged), wrong)
    return result


def table(result: dict[str, Score], cases: int) -> str:
    """A table in Markdown, then what was wrong."""
    lines = [f"| of {cases} cases | right | of | share | goal |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {s.right} | {s.of} | {s.share:.1%} | {GOALS[name]:.0%} |"
        for name, s in result.items()
    ]
    for name, s in result.items():
        lines += [f"{name}: {line}" for line in s.wrong]
    return "\n".join(lines)


def main() -> int:
    """Print the table; exit 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--no-goals", action="store_true", help="Exit 0 whatever the scores are.")
    options = parser.parse_args()
    if not (options.folder / "index.tsv").is_file():
        print(f"accuracy: expected {options.folder}/index.tsv, found none", file=sys.stderr)
        return 2
    scored = rows(options.folder)
    result = scores(scored)
    print(table(result, len(scored)))
    missed = [name for name, score in result.items() if score.share < GOALS[name]]
    return 0 if options.no_goals or not missed else 1


if __name__ == "__main__":
    raise SystemExit(main())
