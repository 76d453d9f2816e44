"""One look at one node: probes → snapshot → outcomes → verdict, inside one deadline."""

import os
import time
from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

import msgspec

from healthcheck.attention import Attention
from healthcheck.baseline import advance, load_baseline, save_baseline
from healthcheck.config import Config, check_faults
from healthcheck.host import Host, root_of
from healthcheck.judge import Selection, judge
from healthcheck.model import Baseline, Job, Problem, Report, Snapshot, verdict_of
from healthcheck.probes import PLANNED, PROBES
from healthcheck.profile import Profile, choose_profile
from healthcheck.reading import Plan, Reading, collect, launch
from healthcheck.registry import load_checks

PROBE_SHARE = 0.68
"""Of the deadline; the rest is for judging and for a drain (5.4 s of 8 s)."""
PROLOG_SKIPS = ("processes",)
"""Walking /proc costs more than the rest of a prolog together on a node with 2,000 tasks."""
BASELINE_STAGES = ("prolog", "epilog", "health")
"""Stages that move the baseline. A look by hand must not hide growth from the next prolog."""


class Request(NamedTuple):
    """What to look at, and how."""

    host: Host
    stage: str = "sweep"
    config: Config = Config()
    notes: tuple[str, ...] = ()
    profile: str | None = None
    job: Job | None = None
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    refused: bool = False
    """The configuration or profile was refused: the verdict is at least unknown."""
    unverified: str | None = None
    """Path of a configuration whose names and limits of checks are still to be verified."""
    remember: bool | None = None
    """Whether this look moves the baseline; by default the stages in BASELINE_STAGES do."""
    node: str | None = None
    """As Slurm calls it, where no job says so."""


class Result(NamedTuple):
    """The report and the facts it rests on."""

    report: Report
    snapshot: Snapshot
    profile: Profile


def run(request: Request, early: Iterable[Reading] = (), started: float | None = None) -> Result:
    """Look at the node. `early`: readings that the caller has started already (NVML, whose
    library takes longest to load). Never raises for anything the node does.
    """
    started = time.monotonic() if started is None else started
    folder = state_folder(request.host, request.config)
    baseline, note = load_baseline(folder)
    notes = [*request.notes, *([note] if note else [])]
    answers, profile, more, refused = _read(request, list(early), baseline, started)
    notes += more
    if request.unverified:
        faults = check_faults(request.config, request.unverified)
        notes += faults
        if faults:
            request = request._replace(config=Config(), refused=True)
    node = assemble(request, answers, baseline)
    flight = None
    if request.config.allreduce and request.stage == "prolog":
        from healthcheck.allreduce.stage import fly

        until = started + request.config.deadline_s * PROBE_SHARE
        flight = fly(request.host, request.config, node, profile.name, folder, until)
        node = flight.node
        notes += flight.notes
    report = _report(request, node, profile, notes, started, refused or request.refused)
    if flight is not None:
        report = msgspec.structs.replace(report, notes=(*report.notes, *flight.remember(report)))
    result = Result(report, node, profile)
    remember = request.remember
    if request.stage in BASELINE_STAGES if remember is None else remember:
        told = keep_baseline(request, result)
        if told:
            report = msgspec.structs.replace(report, notes=(*report.notes, told))
    return result._replace(report=report)


def keep_baseline(request: Request, result: Result) -> str | None:
    """Remember this look, so that growth counts from here; a note where that failed.

    Slurm's hooks do it after they have acted: a disk that holds us must not keep a sick node in
    service.
    """
    report, node, profile = result
    folder = state_folder(request.host, request.config)
    return save_baseline(folder, advance(node, report.outcomes, profile.name, request.job))


def replay(snapshot: Snapshot, request: Request) -> Result:
    """Judge a saved snapshot again, with today's checks and the given profile."""
    started = time.monotonic()
    pinned = snapshot.baseline.profile if snapshot.baseline else None
    profile, notes, refused = choose_profile(
        request.profile or request.config.profile,
        _profile_folders(request),
        pinned,
        snapshot.pci,
    )
    report = _report(
        request, snapshot, profile, [*request.notes, *notes], started, refused or request.refused
    )
    return Result(report, snapshot, profile)


def state_folder(host: Host, config: Config) -> str:
    """Where this node keeps what it remembers."""
    return root_of(host) + config.state_dir


def _profile_folders(request: Request) -> list[str]:
    builtin = os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiles")
    return [request.config.profile_dir, builtin]


def _read(
    request: Request, readings: list[Reading], baseline: Baseline | None, started: float
) -> tuple[dict[str, dict[str, Any]], Profile, list[str], bool]:
    """Start every probe, choose the profile on the way, gather the answers."""
    deadline = started + request.config.deadline_s * PROBE_SHARE
    attention = Attention()
    same_boot = baseline is not None and baseline.boot_id == boot_id(request.host)
    plan = Plan(
        stage=request.stage,
        kernel_log_since=baseline.kernel_log_sequence if baseline and same_boot else 0,
    )
    skipped = PROLOG_SKIPS if request.stage == "prolog" else ()
    running = {reading.probe for reading in readings}
    readings += [
        launch(probe, request.host, plan)
        for probe in PROBES
        if probe not in running and probe not in skipped and probe not in PLANNED
    ]
    # Rules load while the probes read.
    load_checks()
    answers = {}
    pinned = baseline.profile if baseline else None
    wanted = request.profile or request.config.profile
    if wanted == "auto" and pinned is None:
        first = [reading for reading in readings if reading.probe == "pci"]
        readings = [reading for reading in readings if reading.probe != "pci"]
        answers = collect(first, deadline, attention)
    seen, _ = _field(answers, "pci")
    profile, notes, refused = choose_profile(wanted, _profile_folders(request), pinned, seen)
    plan = plan._replace(
        mounts=(*profile.mounts, *request.config.mounts),
        services=(*profile.services, *request.config.services),
    )
    readings += [launch(probe, request.host, plan) for probe in PLANNED]
    answers |= collect(readings, deadline, attention)
    if wanted == "auto" and pinned is not None:
        seen, _ = _field(answers, "pci")
        profile, notes, refused = choose_profile(wanted, _profile_folders(request), pinned, seen)
    return answers, profile, notes, refused


def boot_id(host: Host) -> str | None:
    """The kernel's id of this boot."""
    try:
        return host.read_text("/proc/sys/kernel/random/boot_id", 64) or None
    except OSError:
        return None


def uptime(host: Host) -> float | None:
    """Seconds since boot."""
    try:
        return float(host.read_text("/proc/uptime", 64).split()[0])
    except (OSError, ValueError, IndexError):
        return None


_TYPES = {field.name: field.type for field in msgspec.structs.fields(Snapshot)}


def _field(answers: dict[str, dict[str, Any]], field: str) -> tuple[Any, Problem | None]:
    """One field of the snapshot out of the probes' answers, or why there is none."""
    probe = next(name for name, fields in PROBES.items() if field in fields)
    answer = answers.get(probe)
    if answer is None:
        return None, Problem("skipped", f"the {probe} probe does not run at this stage")
    if "problem" in answer:
        return None, msgspec.convert(answer["problem"], Problem)
    facts = answer["facts"]
    try:
        value = msgspec.convert(facts.get(field), _TYPES[field])
        told = facts.get("problems", {}).get(field)
        if value is None:
            return None, msgspec.convert(
                told or {"kind": "failed", "reason": f"the {probe} probe gave none"}, Problem
            )
    except msgspec.ValidationError as error:
        return None, Problem("failed", f"the {probe} probe gave odd facts: {error}")
    return value, None


def assemble(
    request: Request, answers: dict[str, dict[str, Any]], baseline: Baseline | None
) -> Snapshot:
    """The snapshot out of what the probes sent."""
    values: dict[str, Any] = {}
    problems: dict[str, Problem] = {}
    for field in (field for fields in PROBES.values() for field in fields):
        value, problem = _field(answers, field)
        if problem is None:
            values[field] = value
        else:
            problems[field] = problem
    job = request.job
    return Snapshot(
        node=(job.node_name if job else None) or request.node or request.host.node_name(),
        taken_at=time.time(),
        boot_id=boot_id(request.host),
        uptime_s=uptime(request.host),
        job=job,
        baseline=baseline,
        problems=problems,
        **values,
    )


def _report(
    request: Request,
    node: Snapshot,
    profile: Profile,
    notes: list[str],
    started: float,
    refused: bool,
) -> Report:
    checks, broken = load_checks()
    selection = Selection(request.stage, request.only, request.skip)
    outcomes = judge(
        node, checks.values(), broken, profile, request.config, selection, date.today()
    )
    return Report(
        verdict=verdict_of(outcomes, refused=refused),
        node=node.node,
        profile=profile.name,
        stage=request.stage,
        duration_s=round(time.monotonic() - started, 3),
        outcomes=outcomes,
        notes=tuple(notes),
    )
