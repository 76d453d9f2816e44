"""The report as a Nagios plugin line; the exit codes of `flightcheck check` are Nagios' own."""

from healthcheck.model import Report, Severity, Verdict
from healthcheck.report.clean import clean

_WORDS = {
    Verdict.GO: "OK",
    Verdict.DEGRADED: "WARNING",
    Verdict.NO_GO: "CRITICAL",
    Verdict.UNKNOWN: "UNKNOWN",
}


def to_nagios(report: Report) -> str:
    """Status line with performance data, then one line a finding."""
    bad = [pair for pair in report.findings() if pair[1].severity is not Severity.INFO]
    lines = [_plain(f"{check}: {f.subject}: {f.message}") for check, f in bad]
    first = lines[0] if lines else f"{len(report.outcomes)} checks, profile {report.profile}"
    blind = [o for o in report.outcomes if o.outcome.value in ("unmeasured", "error", "timed-out")]
    if not lines and blind:
        first = _plain(f"{blind[0].check} {blind[0].outcome.value}: {blind[0].reason}")
    more = f" (+{len(lines) - 1} more)" if len(lines) > 1 else ""
    counts = dict.fromkeys(Severity, 0)
    for _, finding in report.findings():
        counts[finding.severity] += 1
    data = (
        f"duration={report.duration_s:.3f}s fail={counts[Severity.FAIL]} "
        f"warn={counts[Severity.WARN]} unmeasured={len(blind)}"
    )
    status = f"FLIGHTCHECK {_WORDS[report.verdict]} - {report.verdict.value}: {first}{more}"
    return "\n".join([f"{status} | {data}", *lines])


def _plain(text: str) -> str:
    """Without the bar, which begins performance data."""
    return clean(text, 400).replace("|", "/")
