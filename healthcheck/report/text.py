"""The report for a person at a terminal."""

from collections import Counter
from collections.abc import Callable

from healthcheck.model import Action, Ending, Finding, Report, Severity, Verdict
from healthcheck.report.clean import clean

_Paint = Callable[[str, str], str]
_COLOURS = {
    Verdict.GO: "32",
    Verdict.DEGRADED: "33",
    Verdict.NO_GO: "31",
    Verdict.UNKNOWN: "35",
}
_MARKS = {
    Severity.FAIL: ("FAIL", "31"),
    Severity.WARN: ("WARN", "33"),
    Severity.INFO: ("info", "36"),
}
_REMEDIES = {
    Action.NONE: None,
    Action.RESTART_APP: "restart the application; the node may stay in service",
    Action.RESET_GPU: "reset the GPU while nothing runs on it (nvidia-smi -r -i BUS_ID)",
    Action.REBOOT: "reboot the node",
    Action.DRAIN: "keep the node out of service and look into it",
    Action.REPLACE: "have the part replaced; it will not come back by itself",
}


def to_text(report: Report, *, colour: bool = False, verbose: bool = False) -> str:
    """The verdict, every finding with its remedy and source, and what could not be judged.

    `verbose` also lists the checks that passed and those that do not apply.
    """

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    head = paint(report.verdict.value.upper(), f"1;{_COLOURS[report.verdict]}")
    lines = [
        f"{clean(report.node)}: {head}  "
        f"({report.profile}, {report.stage} stage, {report.duration_s:.2f} s)"
    ]
    lines += [f"  note  {clean(note)}" for note in report.notes]
    for check, finding in report.findings():
        word, code = _MARKS[finding.severity]
        lines += _finding(paint(word, f"1;{code}"), check, finding, paint)
    for outcome in report.outcomes:
        if outcome.outcome in (Ending.UNMEASURED, Ending.ERROR, Ending.TIMED_OUT):
            word = paint(outcome.outcome.value, "35")
            lines.append(f"  {word} {outcome.check}: {clean(outcome.reason or '')}")
        elif verbose and outcome.outcome is Ending.PASSED:
            lines.append(f"  {paint('ok', '32')}    {outcome.check}")
        elif verbose and outcome.outcome is Ending.NOT_APPLICABLE:
            lines.append(f"  {paint('–', '2')}     {outcome.check}: {clean(outcome.reason or '')}")
    lines.append(f"  {_summary(report)}")
    return "\n".join(lines)


def _finding(word: str, check: str, finding: Finding, paint: _Paint) -> list[str]:
    subject = f"{clean(finding.subject, 80)}: " if finding.subject else ""
    lines = [f"  {word}  {check}  {subject}{clean(finding.message)}"]
    remedy = _REMEDIES[finding.action]
    if remedy:
        lines.append(f"        → {remedy.replace('BUS_ID', clean(finding.subject, 40))}")
    if finding.source:
        lines.append("        " + paint(f"source: {clean(finding.source)}", "2"))
    return lines


def _summary(report: Report) -> str:
    counts = Counter(outcome.outcome for outcome in report.outcomes)
    words = [f"{counts[ending]} {ending.value}" for ending in Ending if counts[ending]]
    nothing = report.profile == "cpu-only" and "no GPU expected here; "
    return f"{nothing or ''}{len(report.outcomes)} checks: {', '.join(words)}"
