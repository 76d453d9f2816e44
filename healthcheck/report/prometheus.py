"""The report as metrics for node_exporter's textfile collector."""

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from healthcheck.model import Ending, Report, Verdict
from healthcheck.report.clean import clean


def to_prometheus(report: Report) -> str:
    """Verdict, outcomes and findings as gauges; every state is a series of 0 or 1, so that an
    alert can be written on any of them and none vanishes silently.
    """
    registry = CollectorRegistry()
    verdict = Gauge(
        "flightcheck_verdict",
        "1 for the node's verdict.",
        ["verdict", "profile"],
        registry=registry,
    )
    for word in Verdict:
        verdict.labels(word.value, report.profile).set(word is report.verdict)
    outcome = Gauge(
        "flightcheck_check_outcome",
        "1 for how a check ended.",
        ["check", "outcome"],
        registry=registry,
    )
    for one in report.outcomes:
        for ending in Ending:
            outcome.labels(one.check, ending.value).set(ending is one.outcome)
    findings = Gauge(
        "flightcheck_findings",
        "Findings by check, severity, subject and action.",
        ["check", "severity", "subject", "action"],
        registry=registry,
    )
    for check, finding in report.findings():
        findings.labels(
            check, finding.severity.value, clean(finding.subject, 120), finding.action.value
        ).inc()
    Gauge("flightcheck_duration_seconds", "How long the run took.", registry=registry).set(
        report.duration_s
    )
    return str(generate_latest(registry).decode())
