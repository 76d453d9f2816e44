"""What a look at a drained node proves. Pure."""

from collections.abc import Collection, Mapping

import msgspec

from healthcheck.model import Action, Ending, Report, Verdict
from healthcheck.report.clean import clean
from slurm_integration.requalify.book import Book, Record
from slurm_integration.requalify.rules import Rules
from slurm_integration.sweep.model import Answer, NodeResult

MAX_PASSES = 60
_ORDER = list(Action)


class Lesson(msgspec.Struct, frozen=True):
    """What one look says: clean, or what is in the way and what mends it."""

    clean: bool
    trouble: str = ""
    remedy: Action = Action.NONE
    replace: bool = False


def learn(
    book: Book,
    results: Mapping[str, NodeResult],
    now: float,
    rules: Rules,
    sweep_checks: Collection[str],
) -> Book:
    """The book after a look at some nodes. An interrupted look changes nothing."""
    changed = {
        name: _learned(book.of(name), judge(result, book.of(name).check, rules, sweep_checks), now)
        for name, result in results.items()
        if result.answer is not Answer.INTERRUPTED
    }
    return book.having(changed)


def judge(
    result: NodeResult, failed: str | None, rules: Rules, sweep_checks: Collection[str]
) -> Lesson:
    """Whether this look is a clean pass of the failed check and of the whole set.

    A node that does not answer, or answers by another name, proves nothing; so does a failed
    check that did not run although it is one of a sweep's.
    """
    if result.answer is not Answer.REPORTED:
        why = f": {result.detail}" if result.detail else ""
        return Lesson(False, clean(f"no report ({result.answer.value}){why}", 300))
    try:
        report = msgspec.convert(result.report, Report)
    except msgspec.ValidationError as error:
        return Lesson(False, clean(f"its report is not of flightcheck's form: {error}", 300))
    if result.detail:
        return Lesson(False, clean(f"it {result.detail}", 300))
    if lesson := _findings(report, failed, rules):
        return lesson
    ending = next((o.outcome.value for o in report.outcomes if o.check == failed), None)
    if failed in sweep_checks and ending not in ("passed", "found"):
        return Lesson(False, f"{failed}, for which it was drained, {_ended(ending)}")
    if not any(outcome.outcome is Ending.PASSED for outcome in report.outcomes):
        return Lesson(False, "no check passed there: none is switched on, or none applies")
    if report.verdict is Verdict.GO or (
        report.verdict is Verdict.DEGRADED and rules.accept == "degraded"
    ):
        return Lesson(True)
    return Lesson(False, f"verdict {report.verdict.value}{_blind(report)}")


def _findings(report: Report, failed: str | None, rules: Rules) -> Lesson | None:
    """What judges the node; a warning of the very check that drained it is in the way too."""
    bad = [
        (check, finding)
        for check, finding in report.findings()
        if finding.severity == "fail"
        or (finding.severity == "warn" and (rules.accept == "go" or check == failed))
    ]
    if not bad:
        return None
    check, worst = bad[0]
    more = f" (+{len(bad) - 1} more)" if len(bad) > 1 else ""
    about = f"{worst.subject}: " if worst.subject and worst.subject not in worst.message else ""
    remedy = max((finding.action for _, finding in bad), key=_ORDER.index)
    fails = [finding for _, finding in bad if finding.severity == "fail"]
    return Lesson(
        False,
        clean(f"{check}: {about}{worst.message}", 300) + more,
        remedy,
        any(finding.action is Action.REPLACE for finding in fails),
    )


def _ended(ending: str | None) -> str:
    return "did not run" if ending is None else f"ended as {ending}"


def _blind(report: Report) -> str:
    blind = [o for o in report.outcomes if o.outcome.value in ("error", "timed-out", "unmeasured")]
    if not blind:
        return ""
    one = blind[0]
    return clean(f": {one.check} {one.outcome.value}" + (f", {one.reason}" if one.reason else ""))


def _learned(record: Record, lesson: Lesson, now: float) -> Record:
    passes = (*record.passes, now) if lesson.clean else ()
    if len(passes) > MAX_PASSES:
        passes = (passes[0], *passes[-MAX_PASSES + 1 :])
    return msgspec.structs.replace(
        record,
        passes=passes,
        looked_at=now,
        trouble=lesson.trouble,
        remedy=lesson.remedy,
        replace=record.replace or lesson.replace,
    )
