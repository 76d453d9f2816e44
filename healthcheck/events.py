"""What happened on this node, as events: only changes, never a line for a healthy look.

`remember` is the one call of a stage. It reads what stood before (one small file), and where
nothing changed it writes nothing and imports nothing more. Everything else here is pure.
"""

from collections.abc import Iterator

import msgspec

from healthcheck.model import Ending, Event, Finding, Job, Report, Severity, Snapshot
from healthcheck.node_event import NodeEvent, bounded, cut, new_id, steady_id
from healthcheck.own_folder import check_folder
from healthcheck.strict_json import decode_json

STANDING = "standing.json"
"""In the state folder: the last verdict of each stage and the findings that stand."""
MAX_STANDING = 512


class Deed(msgspec.Struct, frozen=True):
    """What a stage did about its verdict: drain, requeue or alert.

    `outcome` in the words of the drain (drained, over-budget, dry-run, …); `reason` in one line.
    """

    do: str
    outcome: str = ""
    reason: str = ""


class Standing(msgspec.Struct, frozen=True):
    """What was known after the last look: stage → verdict, and `check|subject` → severity."""

    verdicts: dict[str, str] = {}
    findings: dict[str, str] = {}


def remember(
    folder: str, report: Report, node: Snapshot, deed: Deed | None, job: Job | None, now: float
) -> str | None:
    """Keep what this look changed; a note where that could not be done. Never raises OSError.

    To be called once by a stage that moves the baseline, with the snapshot of before that.
    """
    before = load_standing(folder)
    events = [*events_of(report, before, deed, job, now, node.boot_id), *machine_events(node)]
    if not events:
        return None
    from healthcheck.event_log import record

    told = record(folder, bounded(events))
    # What could not be written is found again by the next look.
    return told or save_standing(folder, standing_after(report, before))


def events_of(
    report: Report,
    before: Standing,
    deed: Deed | None,
    job: Job | None,
    now: float,
    boot_id: str | None = None,
) -> list[NodeEvent]:
    """The events of a look: what differs from `before`, and what was done. Pure but for ids."""
    events = []

    def add(kind: str, **fields: object) -> None:
        events.append(
            NodeEvent(
                id=new_id(now),
                at=round(now, 3),
                node=report.node,
                kind=kind,
                boot_id=boot_id,
                stage=report.stage,
                profile=report.profile,
                job_id=job.job_id if job else None,
                uid=job.uid if job else None,
                **fields,  # type: ignore[arg-type]
            )
        )

    was = before.verdicts.get(report.stage)
    if was != report.verdict.value:
        add("verdict", verdict=report.verdict.value, before=was)
    told = len(events)
    for check, finding in _standing_findings(report):
        if before.findings.get(_key(check, finding.subject)) != finding.severity.value:
            add(
                "finding",
                check=check,
                severity=finding.severity.value,
                subject=cut(finding.subject),
                message=cut(finding.message),
                action=finding.action.value,
            )
    for check, subject in _cleared(report, before):
        add("cleared", check=check, subject=cut(subject))
    # A health run sees the same every few minutes: what it does about it is news once.
    if deed is not None and (job is not None or events or deed.outcome == "drained"):
        add(deed.do, verdict=report.verdict.value, outcome=deed.outcome, message=cut(deed.reason))
        events.insert(told, events.pop())
    return events


def standing_after(report: Report, before: Standing) -> Standing:
    """What stands after this look. A check that could not judge leaves its findings standing."""
    findings = dict(before.findings)
    for check, subject in _cleared(report, before):
        findings.pop(_key(check, subject), None)
    for check, finding in _standing_findings(report):
        findings[_key(check, finding.subject)] = finding.severity.value
    bound = dict(list(findings.items())[-MAX_STANDING:])
    return Standing({**before.verdicts, report.stage: report.verdict.value}, bound)


def machine_events(node: Snapshot) -> Iterator[NodeEvent]:
    """The kernel log's new events and links that went down.

    Their ids follow from what they say: a look that could not save its baseline reads the same
    lines again.
    """
    fresh = node.new_events()
    links = _links(node)
    if not fresh and not links:
        return
    lines = node.kernel_log.events if node.kernel_log else ()
    profile = node.baseline.profile if node.baseline else None
    marks = [f"{line.sequence}|{line.uptime_s}" for line in lines]
    marks += [f"{event.at}" for event in links]
    for event, mark in zip((*fresh, *links), marks, strict=True):
        yield NodeEvent(
            id=steady_id("machine", node.node, node.boot_id, event.kind, event.subject, mark),
            at=event.at,
            node=node.node,
            kind=event.kind,
            boot_id=node.boot_id,
            profile=profile,
            subject=cut(event.subject),
            message=cut(event.message) or None,
            code=event.code,
            count=event.count,
            job_id=event.job_id,
            uid=event.uid,
        )


def _links(node: Snapshot) -> list[Event]:
    # Without IB ports and an older look there is nothing to compare.
    if node.baseline is None or not node.hcas:
        return []
    from healthcheck.baseline import links_downed

    return list(links_downed(node))


def load_standing(folder: str) -> Standing:
    """What stood after the last look. Nothing where there is no such file or it is not ours."""
    try:
        check_folder(folder)
        with open(f"{folder}/{STANDING}", "rb") as file:
            return decode_json(file.read(1 << 20), Standing)
    except (OSError, msgspec.MsgspecError):
        return Standing()


def save_standing(folder: str, standing: Standing) -> str | None:
    """Replace the file as a whole. A note on failure."""
    from healthcheck.event_log import replace_file

    return replace_file(f"{folder}/{STANDING}", msgspec.json.encode(standing))


def _standing_findings(report: Report) -> list[tuple[str, Finding]]:
    """Warnings and failures, the worst of each subject, in the order of the report."""
    worst: dict[str, tuple[str, Finding]] = {}
    for check, finding in report.findings():
        if finding.severity is not Severity.INFO:
            worst.setdefault(_key(check, finding.subject), (check, finding))
    return list(worst.values())


def _cleared(report: Report, before: Standing) -> Iterator[tuple[str, str]]:
    """What stood and is gone: only a check that judged says so."""
    if not before.findings:
        return
    judged = {
        outcome.check
        for outcome in report.outcomes
        if outcome.outcome in (Ending.PASSED, Ending.FOUND)
    }
    now = {_key(check, finding.subject) for check, finding in _standing_findings(report)}
    for key in before.findings:
        check, _, subject = key.partition("|")
        if check in judged and key not in now:
            yield check, subject


def _key(check: str, subject: str) -> str:
    return f"{check}|{cut(subject)}"
