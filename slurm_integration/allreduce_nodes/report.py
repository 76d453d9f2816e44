"""The run as a table for people."""

from collections.abc import Sequence

from healthcheck.report.clean import clean
from slurm_integration.allreduce_nodes.conclude import is_good
from slurm_integration.allreduce_nodes.model import Measured, Rule, RunReport
from slurm_integration.sweep.nodeset import fold

SHOWN = 64
"""Pairs; of more, all bad ones and as many good ones as fit."""


def to_text(report: RunReport, rule: Rule) -> str:
    """Verdict, faults, and every test with its figure."""
    lines = [
        f"all_reduce over {len(report.nodes)} nodes ({clean(fold(report.nodes))}), "
        f"{report.ranks} ranks, {report.backend or 'nothing'}: {report.verdict} in "
        f"{report.duration_s:.1f} s"
    ]
    lines += [f"  {clean(fault.words)}" for fault in report.conclusion.faults]
    lines += [f"  note: {clean(note)}" for note in report.conclusion.notes]
    if report.tests:
        lines += ["", *_rows(report.tests, report.conclusion.reference_gb_s, rule)]
    return "\n".join(lines)


def _rows(tests: Sequence[Measured], reference: float | None, rule: Rule) -> list[str]:
    rows = [("test", "nodes", "busbw GB/s", "of good", "")]
    good = [test for test in tests if is_good(test, reference, rule)]
    bad = [test for test in tests if test not in good]
    shown = {id(test) for test in (*bad, *good[: max(0, SHOWN - len(bad))])}
    for test in tests:
        if id(test) not in shown:
            continue
        figure, share = "–", ""
        if test.busbw_gb_s is not None:
            figure = f"{test.busbw_gb_s:.4g}"
            if reference and test.kind == "pair":
                share = f"{test.busbw_gb_s / reference:.0%}"
        state = "" if test in good else ("slow" if test.end == "ok" else test.end)
        name = f"round {test.round}" if test.kind == "pair" else test.kind
        words = f"{state}: {clean(test.reason)}" if test.reason else state
        many = len(test.nodes) > 3
        rows.append(
            (name, fold(test.nodes) if many else "–".join(test.nodes), figure, share, words)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join((f"{row[0]:<{widths[0]}}", f"{row[1]:<{widths[1]}}", f"{row[2]:>{widths[2]}}",
                   f"{row[3]:>{widths[3]}}", row[4])).rstrip()
        for row in rows
    ]  # fmt: skip
    left = len(tests) - len(rows) + 1
    return [f"  {line}" for line in lines] + ([f"  … {left} more, all good"] if left > 0 else [])
