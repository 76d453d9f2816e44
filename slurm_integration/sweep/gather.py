"""Equal answers said once: `node[001-480]: go`. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from healthcheck.model import Verdict
from slurm_integration.sweep.model import Answer, NodeResult
from slurm_integration.sweep.nodeset import fold

ORDER = ("no-go", "degraded", "unknown")


class Group(msgspec.Struct, frozen=True):
    """Nodes that say the same. `word` is a verdict or an answer."""

    word: str
    nodes: tuple[str, ...]
    lines: tuple[str, ...] = ()


def word_of(result: NodeResult) -> str:
    """The verdict, or the answer where there is none."""
    verdict = result.verdict
    return verdict.value if verdict is not None else result.answer.value


def lines_of(result: NodeResult) -> tuple[str, ...]:
    """What a node says besides its verdict, worst first; for any other answer, its detail."""
    if result.report is None:
        return (result.detail,) if result.detail else ()
    lines = [
        f"{finding['severity']} {check} {finding['subject']}: {finding['message']}".replace(
            " : ", ": "
        )
        for check, finding in result.findings()
        if finding["severity"] != "info"
    ]
    lines += [
        f"{outcome['outcome']} {outcome['check']}: {outcome['reason']}"
        for outcome in result.report["outcomes"]
        if outcome["outcome"] in ("error", "timed-out", "unmeasured")
    ]
    if result.detail:
        lines.append(f"note: {result.detail}")
    if result.verdict is Verdict.UNKNOWN:
        lines += [f"note: {note}" for note in result.report["notes"]]
    return tuple(lines)


def one_line(result: NodeResult) -> str:
    """`node02: no-go fail gpu-count node: 7 of 8 GPUs visible (+2 more)`."""
    lines = lines_of(result)
    more = f" (+{len(lines) - 1} more)" if len(lines) > 1 else ""
    return f"{result.node}: {word_of(result)}{' ' + lines[0] if lines else ''}{more}"


def gather(results: Iterable[NodeResult]) -> list[Group]:
    """Groups of equal answers: no-go, degraded, unknown, those without a report, go last."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for result in results:
        # A detail often names its host: equal but for that is equal.
        lines = tuple(line.replace(result.node, "HOST") for line in lines_of(result))
        found.setdefault((word_of(result), lines), []).append(result.node)
    made = [
        Group(
            word,
            tuple(nodes),
            tuple(line.replace("HOST", nodes[0] if len(nodes) == 1 else "%h") for line in lines),
        )
        for (word, lines), nodes in found.items()
    ]
    return sorted(made, key=_rank)


def _rank(group: Group) -> tuple[int, int, str]:
    ranks = {word: number for number, word in enumerate(ORDER)} | {Verdict.GO.value: 9}
    return ranks.get(group.word, 5), -len(group.nodes), group.nodes[0]


def as_text(groups: Sequence[Group]) -> list[str]:
    """One line for each group, its findings indented below."""
    lines = []
    for group in groups:
        lines.append(f"{fold(group.nodes)}: {group.word}")
        lines += [f"    {line}" for line in group.lines]
    return lines


def summary(results: Sequence[NodeResult]) -> str:
    """`480 go, 1 no-go, 2 unreachable of 483 nodes`."""
    counts: dict[str, int] = {}
    for result in results:
        counts[word_of(result)] = counts.get(word_of(result), 0) + 1
    order = ["go", *ORDER, *(answer.value for answer in Answer)]
    told = [f"{counts[word]} {word}" for word in order if counts.get(word)]
    return f"{', '.join(told)} of {len(results)} nodes"


def exit_code(results: Sequence[NodeResult]) -> int:
    """The worst of all nodes, as in `flightcheck check`: no-go 2, unknown 3, degraded 1, go 0.

    A node without a report counts as unknown: it was not judged.
    """
    codes = {
        result.verdict.exit_code if result.verdict is not None else Verdict.UNKNOWN.exit_code
        for result in results
    }
    return next((code for code in (2, 3, 1) if code in codes), 0)
