"""The report as JSON, in the form that other programs rely on (schema.json beside this file)."""

from typing import Any

import msgspec

from healthcheck.model import Outcome, Report


def to_data(report: Report) -> dict[str, Any]:
    """The report as plain data, in the order of the documented form."""
    return {
        "verdict": report.verdict.value,
        "node": report.node,
        "profile": report.profile,
        "stage": report.stage,
        "duration_s": report.duration_s,
        "notes": list(report.notes),
        "outcomes": [_outcome(outcome) for outcome in report.outcomes],
    }


def to_json(report: Report) -> str:
    """One line of JSON."""
    return msgspec.json.encode(to_data(report)).decode()


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "check": outcome.check,
        "outcome": outcome.outcome.value,
        "reason": outcome.reason,
        "findings": [
            {
                "severity": finding.severity.value,
                "subject": finding.subject,
                "message": finding.message,
                "measured": finding.measured,
                "expected": finding.expected,
                "action": finding.action.value,
                "source": finding.source,
            }
            for finding in outcome.findings
        ],
    }
