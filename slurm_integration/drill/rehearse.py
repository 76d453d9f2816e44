"""A rehearsal: a fault is put into a real node's snapshot, judged and decided on; nothing changes.

The node is read as a sweep reads it. The fault comes from a simulated node of the same type, so
every fault of the sandbox can be rehearsed but those that need a past of their own.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from io import StringIO

import msgspec

from healthcheck.config import Config
from healthcheck.host import host_at
from healthcheck.main import take_early
from healthcheck.model import Finding, Job, Report, Severity, Snapshot
from healthcheck.model.snapshot import decode_snapshot
from healthcheck.runner import Request, replay, run
from slurm_integration.drain import drain_node
from slurm_integration.drill.play import SILENT_DEADLINE_S, why_not_here
from slurm_integration.drill.transplant import NotHereError, transplant
from slurm_integration.policy import Do, decide
from slurm_integration.reason import drain_reason
from slurm_integration.sandbox.faults.registry import Fault, find_fault, load_faults
from slurm_integration.sandbox.machine.files_system import settings_of
from slurm_integration.sandbox.machine.live import (
    break_machine,
    build_machine,
    machine_of,
    read_record,
    show_record,
    take_baseline,
)
from slurm_integration.sandbox.machine.look import look
from slurm_integration.sandbox.machine.types import NODE_TYPES
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.options import Options
from slurm_integration.sweep.session import Session

BUDGET_S = 10.0


class Rehearsed(msgspec.Struct, frozen=True):
    """What would happen. `end`: found, missed, or not-here with the reason in `why`."""

    node: str
    fault: str
    stage: str
    end: str
    why: str = ""
    verdict: str = ""
    decision: str = ""
    reason: str = ""
    budget: str = ""
    findings: tuple[tuple[str, Finding], ...] = ()


class RehearsalError(Exception):
    """A rehearsal can't begin; the text says what to do."""


def read_here(root: str | None, config: Config) -> Snapshot:
    """This node as a sweep would see it; its memory of itself is not touched."""
    request = Request(host=host_at(root), stage="sweep", config=config, remember=False)
    return run(request, take_early(root, "sweep")).snapshot


def read_there(node: str, config: Config, program: str, ssh_config: str = "") -> Snapshot:
    """Another node, through the sweep's transports. Raises RehearsalError."""
    with tempfile.TemporaryDirectory(prefix="flightcheck-drill-") as folder:
        options = Options(nodelist=node, save_dir=folder, program=program, ssh_config=ssh_config)
        heard = StringIO()
        try:
            Session(options, config, (), heard, heard).run()
            with open(f"{folder}/{node}.json", "rb") as file:
                return decode_snapshot(file.read())
        except (SweepError, OSError, ValueError) as error:
            told = heard.getvalue().strip().replace("\n", "; ")
            raise RehearsalError(f"{node} gave no snapshot: {told or error}") from error


def rehearse(
    real: Snapshot, faults: Sequence[str], stages: Sequence[str], config: Config, node_type: str
) -> Iterator[Rehearsed]:
    """Each fault at each stage. Raises RehearsalError, FaultError, BuildError."""
    type_name = _type_of(real, config, node_type)
    kind = NODE_TYPES[type_name]
    chosen = [find_fault(name) for name in faults] or list(load_faults().values())
    with tempfile.TemporaryDirectory(prefix="flightcheck-drill-") as folder:
        root = f"{folder}/node"
        record = build_machine(root, type_name, "simulated")
        take_baseline(root)
        healthy = _seen(root, silent=False)
        for fault in chosen:
            why = _impossible(fault, applies=fault.applies_to(kind))
            sick = real
            if not why:
                break_machine(root, fault.name)
                try:
                    sick = transplant(healthy, _seen(root, silent=fault.silent), real)
                except NotHereError as error:
                    why = str(error)
                show_record(root, record)
            for stage in stages:
                if why:
                    yield Rehearsed(real.node, fault.name, stage, "not-here", why)
                else:
                    yield _judged(fault, stage, sick, real, config)


def _impossible(fault: Fault, *, applies: bool) -> str:
    if fault.check is None:
        return "it must pass: nothing would happen"
    if not applies:
        return "nodes of this type can't have it"
    if fault.before is not None:
        return "it needs a past that this node does not have"
    return ""


def _type_of(real: Snapshot, config: Config, wanted: str) -> str:
    """The simulated node type that stands for this node."""
    profile = replay(real, Request(host=host_at(None), config=config)).profile.name
    name = wanted or profile
    if name not in NODE_TYPES:
        raise RehearsalError(
            f"{real.node} has profile {profile!r}, which no simulated node has: expected --type "
            f"with one of {', '.join(NODE_TYPES)}"
        )
    return name


def _seen(root: str, *, silent: bool) -> Snapshot:
    healthy = machine_of(msgspec.structs.replace(read_record(root), faults=()))
    config = settings_of(healthy)
    if silent:
        config = msgspec.structs.replace(config, deadline_s=SILENT_DEADLINE_S)
    return look(root, healthy, "sweep", config=config).snapshot


def _judged(fault: Fault, stage: str, sick: Snapshot, real: Snapshot, config: Config) -> Rehearsed:
    """The real rules on the changed facts, and what they would lead to."""
    sick = msgspec.structs.replace(sick, job=_job(fault, real, stage))
    request = Request(host=host_at(None), stage=stage, config=config)
    report = replay(sick, request).report
    decision = decide(report, config)
    new = tuple(
        one for one in report.findings()
        if one not in replay(real, request).report.findings()
    )  # fmt: skip
    hit = any(check == fault.check for check, _ in new) or _blind(fault, report)
    why = "" if hit else why_not_here(fault, stage)
    if not hit and not why and sick.baseline is None:
        why = "this node has no baseline yet, so nothing can have grown"
    reason = budget = ""
    if decision.do is Do.DRAIN:
        reason = drain_reason([(check, f"{f.subject}: {f.message}") for check, f
                               in decision.findings])  # fmt: skip
        until = time.monotonic() + BUDGET_S
        told = drain_node(reason, config.drain, real.node, None, until, dry_run=True)
        budget = told.message
    return Rehearsed(
        real.node, fault.name, stage, "found" if hit else "not-here" if why else "missed", why,
        report.verdict.value, decision.do.value, reason, budget, new,
    )  # fmt: skip


def _blind(fault: Fault, report: Report) -> bool:
    return fault.blind and any(o.check == fault.check and o.reason for o in report.outcomes)


def _job(fault: Fault, real: Snapshot, stage: str) -> Job | None:
    """A job that was given the GPU in the middle: the one that the fault hits."""
    if fault.owned is None or stage in ("health", "sweep"):
        return real.job
    gpus = real.gpus or ()
    minors = [gpu.minor_number for gpu in gpus if gpu.minor_number is not None]
    return Job(1, uid=1000, gpu_minors=(minors[len(minors) // 2],) if minors else ())


def words(one: Rehearsed) -> list[str]:
    """A rehearsal of one fault at one stage, for a person."""
    head = f"{one.fault} on {one.node} at {one.stage}: {one.end}"
    if one.end == "not-here":
        return [f"{head}: {one.why}"]
    lines = [f"{head}: verdict {one.verdict}, {one.decision}"]
    lines += [
        f"    {f.severity} {check} {f.subject}: {f.message}"
        + (f" [{f.action.value}]" if f.severity is Severity.FAIL else "")
        for check, f in one.findings
    ]
    if one.reason:
        lines += [f"    reason: {one.reason}", f"    budget: {one.budget}"]
    return lines
