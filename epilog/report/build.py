"""The report of a failed job as plain data. Pure; every text in it is safe for a terminal."""

from typing import Any, NamedTuple

from epilog.act import Done
from epilog.classes import class_of
from epilog.model import Attribution, to_data
from epilog.reader.errand import Found
from healthcheck.model import Job, Report
from healthcheck.report.clean import clean

VERSION = 1
MAX_TEXT = 2000


class Told(NamedTuple):
    """All that the report is made of."""

    job: Job
    answer: Attribution
    done: Done
    node: Report
    found: Found
    notes: tuple[str, ...]


def build_report(told: Told) -> dict[str, Any]:
    """The documented form of report.json."""
    job, answer, done, node = told.job, told.answer, told.done, told.node
    entry = class_of(answer.klass)
    found = told.found
    report = {
        "version": VERSION,
        "job": {
            "id": job.job_id,
            "user": job.user,
            "uid": job.uid,
            "nodes": job.nodelist,
            "exit_code": job.exit_code,
            "exit_signal": job.exit_signal,
            "derived_exit_code": job.derived_exit_code,
            "restarts": job.restart_count,
        },
        **to_data(answer),
        "fault": entry.fault.value,
        "advice": entry.advice,
        "decision": {
            "drain": list(done.decision.drain),
            "diagnose": list(done.decision.diagnose),
            "suspect": [s.node for s in done.decision.suspicions],
            "requeued": done.requeued,
            "why": list(done.decision.why),
            "said": list(done.said),
        },
        "node": {
            "name": node.node,
            "verdict": node.verdict.value,
            "findings": [
                {"check": check, "severity": f.severity.value, "subject": f.subject,
                 "message": f.message}
                for check, f in node.findings()
            ],
        },
        "files": [{"file": f.path, "bytes": f.size, "left_out": f.cut} for f in found.files],
        "notes": [*told.notes, *found.notes, *found.scan.notes, *found.recorder.notes],
    }  # fmt: skip
    cleaned: dict[str, Any] = _cleaned(report)
    return cleaned


def _cleaned(value: Any) -> Any:
    """The same data with every text made safe: users choose names, lines and paths in it."""
    if isinstance(value, str):
        return clean(value, MAX_TEXT)
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
