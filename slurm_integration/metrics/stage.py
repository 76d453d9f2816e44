"""What one stage saw last, as metrics. Pure.

Per node and stage: four series for the verdict, six for outcomes, four for what was done, two
figures, and one or two for each check that found something or could not judge. Subjects stay out:
a report has them, and ten thousand nodes times eight GPUs would be too many series.
"""

from collections.abc import Iterator

from healthcheck.model import Ending, Report, Severity, Verdict
from slurm_integration.metrics.textfile import Gauge

DEEDS = ("pass", "alert", "requeue", "drain")
MAX_CHECKS = 100
"""Checks with series of their own; a site's plug-ins can add any number."""


def stage_gauges(report: Report, did: str, now: float) -> Iterator[Gauge]:
    """The metrics of one run. `did`: one of DEEDS. `now`: unix seconds."""
    stage = {"stage": report.stage}
    yield Gauge(
        "flightcheck_verdict",
        "1 for the verdict of the last run of this stage.",
        [
            (
                {**stage, "profile": report.profile, "verdict": word.value},
                int(word is report.verdict),
            )
            for word in Verdict
        ],
    )
    yield Gauge(
        "flightcheck_checks",
        "Checks of the last run by how they ended.",
        [
            ({**stage, "outcome": ending.value}, sum(o.outcome is ending for o in report.outcomes))
            for ending in Ending
        ],
    )
    yield Gauge(
        "flightcheck_findings",
        "Findings of the last run by check and severity; a check that found nothing has none.",
        [
            ({**stage, "check": outcome.check, "severity": severity.value}, count)
            for outcome in report.outcomes[:MAX_CHECKS]
            if outcome.findings
            for severity in (Severity.WARN, Severity.FAIL)
            if (count := sum(f.severity is severity for f in outcome.findings))
        ],
    )
    yield Gauge(
        "flightcheck_check_unjudged",
        "1 for a check of the last run that could not judge.",
        [
            ({**stage, "check": outcome.check, "outcome": outcome.outcome.value}, 1)
            for outcome in report.outcomes[:MAX_CHECKS]
            if outcome.outcome in (Ending.UNMEASURED, Ending.ERROR, Ending.TIMED_OUT)
        ],
    )
    yield Gauge(
        "flightcheck_action",
        "1 for what the last run of this stage did.",
        [({**stage, "action": deed}, int(deed == did)) for deed in DEEDS],
    )
    yield Gauge(
        "flightcheck_duration_seconds",
        "How long the last run took.",
        [(stage, report.duration_s)],
    )
    yield Gauge(
        "flightcheck_last_run_timestamp_seconds",
        "When this stage ran last, in unix time.",
        [(stage, round(now, 3))],
    )


def write_stage(folder: str, report: Report, did: str, now: float) -> str | None:
    """Write a stage's metrics for node_exporter; a note where that failed. Never raises OSError."""
    from slurm_integration.metrics.textfile import render, write

    return write(folder, report.stage, render(stage_gauges(report, did, now)))
