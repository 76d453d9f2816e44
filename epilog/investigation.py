"""The first node of a failed job: read the job's files, find the cause, decide, tell.

`begin` starts the reading in a child before the probes look at the node; `finish` puts the two
together. Nothing that comes back from the child counts as a fact: it read what a user wrote.
"""

import time
from typing import Any

import msgspec

from epilog.act import carry_out
from epilog.classify import Heard, classify
from epilog.errands import build_errand, output_folder
from epilog.job_facts import Shown, build_facts, first_node, parse_show_job, slurms_end
from epilog.model import Attribution, Evidence, JobFacts, Role
from epilog.neighbours import drained_for
from epilog.postflight import node_evidence
from epilog.reader.child import Reader
from epilog.reader.errand import Found
from epilog.report.build import Told, build_report
from epilog.settings import EpilogSettings, settings_of
from epilog.task_exits import gather, share
from healthcheck import guard
from healthcheck.config import Config
from healthcheck.event_log import record
from healthcheck.model import Job, Severity
from healthcheck.node_event import job_failures
from healthcheck.runner import Result
from healthcheck.strict_json import decode_json
from slurm_integration.hook import say
from slurm_integration.scontrol import Scontrol

FINISH_S = 3.0
"""Of the deadline, kept for what comes after reading."""
PROLOG_REPORT = "prolog.json"


def begin(
    config: Config,
    raw: dict[str, Any],
    job: Job,
    folder: str,
    started: float,
    *,
    only_slurms: bool = False,
) -> "Investigation | None":
    """Start, unless this is not the job's first node or the site does not want it.

    `only_slurms`: only where Slurm says that it ended the job itself, or cannot be asked.
    """
    settings, notes = settings_of(raw)
    for note in notes:
        say(f"note: {note}")
    me = job.node_name
    if not settings.read_logs:
        return None
    if job.nodelist and me and first_node(job.nodelist).partition(".")[0] != me.partition(".")[0]:
        if settings.shared_dir:
            share(settings.task_record, job.job_id, me, settings.shared_dir)
        return None
    found = Investigation(config, settings, job, folder, started)
    # The words that led here stood in the job's own log, and may be a user's joke.
    if only_slurms and not found.ended_by_slurm:
        return None
    found.read()
    return found


class Investigation:
    """One failed job being looked into."""

    def __init__(
        self, config: Config, settings: EpilogSettings, job: Job, folder: str, started: float
    ) -> None:
        self._config, self._settings, self._job = config, settings, job
        self._own, self._folder = folder, settings.shared_dir or folder
        self._prolog = _failed_before(folder)
        self._deadline = started + settings.deadline_s
        guard.promise(self._deadline)
        self._notes: list[str] = []
        self._slurm = Scontrol(config.drain.scontrol or "", config.drain.timeout_s)
        self._shown = self._show()
        self._facts = build_facts(job, self._shown)
        seconds = max(0.5, settings.deadline_s - FINISH_S)
        self._errand = build_errand(job, self._shown, self._facts.nodes, settings, seconds)
        self._reader: Reader | None = None

    def read(self) -> None:
        """Start reading the job's files."""
        self._reader = Reader(self._errand) if self._errand else None

    @property
    def ended_by_slurm(self) -> bool:
        """Whether Slurm says that it ended the job itself, or could not be asked."""
        return self._shown.state is None or slurms_end(self._job, self._shown) is not None

    def finish(self, result: Result) -> None:
        """Attribute, decide, act, tell."""
        found = untrusted(self._reader.collect() if self._reader else Found())
        local = node_evidence(
            result.snapshot,
            result.report.findings(Severity.FAIL),
            self._prolog,
            self._facts.started_at,
        )
        facts = [*local, *self._scheduler()]
        self._facts = self._with_exits(self._facts)
        answer = self._classify(found, facts)
        peers = self._peers(answer)
        if peers:
            answer = self._classify(found, [*facts, *peers])
        self._say(answer)
        done = carry_out(
            answer, self._facts, self._config, self._settings, self._folder, self._deadline
        )
        self._tell(Told(self._job, answer, done, result.report, found, tuple(self._notes)))
        self._remember(answer, result.report.node)

    def _with_exits(self, facts: JobFacts) -> JobFacts:
        """How each task ended, as the SPANK plugin recorded it here and where else it is seen."""
        me, settings = self._job.node_name, self._settings
        if not me:
            return facts
        exits = gather(settings.task_record, self._job.job_id, me, settings.shared_dir)
        return msgspec.structs.replace(facts, exits=exits) if exits else facts

    def _remember(self, answer: Attribution, node: str) -> None:
        """Keep the failure for the fleet's history; every node of the job may tell the same."""
        facts = self._facts
        note = record(
            self._own,
            job_failures(
                node,
                self._job.job_id,
                answer.klass,
                answer.root.nodes,
                at=facts.ended_at or time.time(),
                nodes=len(facts.nodes) or 1,
                uid=facts.uid,
                restart=facts.restart_count,
                started_at=facts.started_at,
                confidence=answer.confidence,
                message=answer.message,
            ),
        )
        if note:
            self._notes.append(note)

    def _show(self) -> Shown:
        answer = self._slurm.show_job(self._job.job_id, deadline=self._deadline)
        if answer.ok:
            return parse_show_job(answer.stdout)
        self._notes.append(f"scontrol did not show the job: {answer.trouble()}")
        return Shown()

    def _classify(self, found: Found, facts: list[Evidence]) -> Attribution:
        heard = Heard(
            evidence=(*facts, *found.recorder.evidence),
            works=found.recorder.works,
            notes=found.recorder.notes,
        )
        return classify(self._facts, found.scan, heard)

    def _scheduler(self) -> list[Evidence]:
        """An end that Slurm itself made, as it says so of the job."""
        klass = slurms_end(self._job, self._shown)
        if klass is None:
            return []
        return [
            Evidence(
                file="scontrol show job",
                line=0,
                role=Role.ROOT,
                klass=klass,
                text=f"JobState={self._shown.state}",
                signature="job-state",
                at=self._facts.ended_at,
                fact=True,
            )
        ]

    def _peers(self, answer: Attribution) -> list[Evidence]:
        """What the job's other nodes say of themselves."""
        me = self._job.node_name or ""
        if not self._job.nodelist or len(self._facts.nodes) < 2 or answer.category == "scheduler":
            return []
        if any(e.fact and e.host == me for e in answer.evidence):
            return []
        until = min(time.monotonic() + self._settings.peer_wait_s, self._deadline - 1.0)
        facts, note = drained_for(self._slurm, self._job.nodelist, me, self._job.job_id, until)
        if note:
            self._notes.append(note)
        return facts

    def _say(self, answer: Attribution) -> None:
        root = ", ".join(map(str, answer.root.ranks[:8])) or "unknown"
        nodes = ", ".join(answer.root.nodes[:4]) or "unknown"
        say(
            f"job {self._job.job_id} failed: {answer.klass} (confidence "
            f"{answer.confidence:.2f}), root rank {root}, root node {nodes}: {answer.message}"
        )

    def _tell(self, told: Told) -> None:
        from epilog.report.leave import leave_reports

        folder = output_folder(self._errand, self._job, self._shown) if self._errand else None
        for note in leave_reports(build_report(told), told, self._settings, self._folder, folder):
            say(f"note: {note}")


def untrusted(found: Found) -> Found:
    """What the child brought, with nothing in it that counts as a fact of a node."""
    scan = found.scan
    return msgspec.structs.replace(
        found,
        scan=msgspec.structs.replace(
            scan,
            evidence=tuple(_plain(e) for e in scan.evidence),
            context=tuple(_plain(e) for e in scan.context),
            exits=tuple(msgspec.structs.replace(x, fact=False) for x in scan.exits),
        ),
        recorder=msgspec.structs.replace(
            found.recorder, evidence=tuple(_plain(e) for e in found.recorder.evidence)
        ),
    )


def _plain(e: Evidence) -> Evidence:
    return msgspec.structs.replace(e, fact=False) if e.fact else e


def _failed_before(folder: str) -> frozenset[tuple[str, str]]:
    """(check, subject) that failed in the node's last prolog already."""
    try:
        with open(f"{folder}/{PROLOG_REPORT}", "rb") as file:
            report = decode_json(file.read(1 << 22), _Prolog)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return frozenset()
    return frozenset(
        (o.check, f.subject) for o in report.outcomes for f in o.findings if f.severity == "fail"
    )


class _PrologFinding(msgspec.Struct):
    severity: str
    subject: str


class _PrologOutcome(msgspec.Struct):
    check: str
    findings: list[_PrologFinding] = []


class _Prolog(msgspec.Struct):
    outcomes: list[_PrologOutcome] = []
