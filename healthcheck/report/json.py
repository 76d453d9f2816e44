"""The report as JSON, in the form that other programs rely on (schema.json beside this file)."""

import re
from typing import Any

import msgspec

from healthcheck.model import Outcome, Report

_UNSEEN = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


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
    data = to_data(report)
    try:
        text = msgspec.json.encode(data).decode()
    except UnicodeEncodeError:
        text = msgspec.json.encode(_whole(data)).decode()
    # JSON is shown on terminals too, which C1 controls and direction marks move.
    return text if text.isascii() else _UNSEEN.sub(lambda at: f"\\u{ord(at[0]):04x}", text)


def _whole(value: Any) -> Any:
    """Without halves of characters, which names of files may hold and JSON may not."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, (list, tuple)) else value


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
