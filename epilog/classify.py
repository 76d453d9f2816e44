"""From files to an attribution: what the command and the hook both do after opening the files."""

import time
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import BinaryIO

import msgspec

from epilog.attribute import attribute
from epilog.kernel_log import read_kernel_log
from epilog.model import Attribution, Evidence, JobFacts, Work
from epilog.scan import Attempt, ScanResult, Settings, Source, scan_files

MAX_KERNEL_LOG = 16 << 20
"""Bytes read of one node's kernel log, from its end."""

# What the kernel's own parser already read, or what only a program can mean.
_KERNEL_ONLY = ("infrastructure/", "user/host-oom", "user/segfault")


class Heard(msgspec.Struct, frozen=True):
    """Facts and records that do not come from the job's logs."""

    evidence: tuple[Evidence, ...] = ()
    works: tuple[Work, ...] = ()
    notes: tuple[str, ...] = ()


def classify(facts: JobFacts, scanned: ScanResult, heard: Heard | None = None) -> Attribution:
    """The attribution of a job from its scanned logs and whatever else was heard of it."""
    heard = heard or Heard()
    return attribute(
        facts,
        (*scanned.evidence, *heard.evidence),
        (*scanned.works, *(_given_up(work) for work in heard.works)),
        scanned.exits,
        scanned.places,
        last_attempts(scanned.attempts),
        scanned.context,
    )


def _given_up(work: Work) -> Work:
    """The recorder tells when an operation began, the log when its watchdog gave up: the latter."""
    if work.at is None or work.timeout_ms is None:
        return work
    return msgspec.structs.replace(work, at=work.at + work.timeout_ms / 1000)


def last_attempts(attempts: Iterable[Attempt]) -> dict[str, int]:
    """The line behind which the last attempt begins, per file."""
    starts: dict[str, int] = {}
    for attempt in attempts:
        starts[attempt.file] = max(attempt.line, starts.get(attempt.file, 0))
    return starts


def node_facts(name: str, stream: BinaryIO, node: str, near: float | None = None) -> list[Evidence]:
    """Facts of `node` from its kernel log; `near` (unix seconds) tells the year of its dates.

    Raises OSError as reading does.
    """
    data = stream.read(MAX_KERNEL_LOG)
    lines = data.split(b"\n")
    year = time.gmtime(near).tm_year if near is not None else 0
    facts = read_kernel_log(lines, name, node, year)
    known = {fact.line for fact in facts}
    settings = Settings(started_at=near, nodes=(node,))
    scanned = scan_files([Source(name, BytesIO(data), len(data), node, fact=True)], settings)
    more = [
        msgspec.structs.replace(e, host=node, rank=None, local_rank=None, label=None, fact=True)
        for e in scanned.evidence
        if e.line not in known and e.klass.startswith(_KERNEL_ONLY)
    ]
    return [*facts, *more]


def job_facts(
    exit_code: tuple[int, int] | None = None,
    nodes: Sequence[str] = (),
    tasks_per_node: int | None = None,
) -> JobFacts:
    """What a person can tell of a job on the command line."""
    return JobFacts(
        exit_code=exit_code[0] if exit_code else None,
        exit_signal=exit_code[1] if exit_code else None,
        nodes=tuple(nodes),
        tasks_per_node=(tasks_per_node,) * len(nodes) if tasks_per_node else (),
    )
