"""What Slurm's hooks have in common: a line for slurmd's log, a file left for people.

On the path of every healthy prolog, so nothing is imported that is not there already.
"""

import sys
import time

from healthcheck import events
from healthcheck.config import Config
from healthcheck.events import Deed
from healthcheck.model import Ending, Job, Report
from healthcheck.own_folder import check_folder
from healthcheck.report.clean import clean
from healthcheck.runner import Result
from healthcheck.whole_file import write_whole
from slurm_integration.policy import Decision, Do

FAIL_JOB = 75
"""A hook's exit code where it has decided that Slurm must count it as failed (EX_TEMPFAIL).

To slurmd any code but 0 is one. The wrappers of `flightcheck install` let only this one through:
an interpreter that does not start, or a package it cannot load, gives others (law 2).
"""


def say(text: str) -> None:
    """A line on standard output, which slurmd puts into its log."""
    sys.stdout.write(f"flightcheck: {clean(text)}\n")


def tell(report: Report, decision: Decision, job: Job | None) -> None:
    """One line for slurmd's log, and one more for everything somebody should look at."""
    flight = f" [job {job.job_id}]" if job else ""
    say(
        f"{report.verdict.value} {report.node} {report.profile} "
        f"{len(report.outcomes)} checks in {report.duration_s:.2f} s{flight}"
    )
    for note in report.notes:
        say(f"note: {note}")
    for check, finding in report.findings():
        say(f"{finding.severity.value} {check} {finding.subject}: {finding.message}")
    for outcome in report.outcomes:
        if outcome.outcome in (Ending.UNMEASURED, Ending.ERROR, Ending.TIMED_OUT):
            say(f"{outcome.outcome.value} {outcome.check}: {outcome.reason}")
    if decision.do is not Do.PASS:
        say(decision.why)


def remember(
    folder: str, result: Result, decision: Decision, deed: Deed | None, config: Config
) -> None:
    """Keep what this look changed, for the fleet's history, and its metrics where they are wanted.

    Called when everything else is done: on a busy disk a write takes as long as the whole look.
    """
    now = time.time()
    report, node = result.report, result.snapshot
    note = events.remember(folder, report, node, deed, node.job, now)
    if note:
        say(f"note: {note}")
    if deed is not None:
        _log(result, decision, deed, config)
    if config.metrics_dir:
        from slurm_integration.metrics.stage import write_stage

        note = write_stage(config.metrics_dir, report, decision.do.value, now)
        if note:
            say(f"note: {note}")


def _log(result: Result, decision: Decision, deed: Deed, config: Config) -> None:
    """The decision as one structured line in the journal; a node that is go writes none."""
    from slurm_integration.notify.journal import fields_of, write
    from slurm_integration.notify.settings import settings_of

    settings, trouble = settings_of(config.notify)
    if trouble:
        say(f"note: {trouble}")
    job = result.snapshot.job
    why = deed.reason or decision.why
    write(fields_of(result.report, deed.do, why, job, deed.outcome), settings.log)


def leave_file(path: str, data: bytes) -> None:
    """Write a file for root's eyes, whole or not at all. Best effort: a full disk fails no job."""
    try:
        check_folder(path.rpartition("/")[0])
        write_whole(path, data)
    except OSError:
        pass
