"""Playing cases on simulated machines: the real probes, checks and policy, and no Slurm."""

import faulthandler
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from healthcheck.baseline import FILE
from healthcheck.config import Config
from healthcheck.model import Job, Report, Severity
from healthcheck.registry import STAGES, load_checks
from slurm_integration.drill.model import Case, End, Played
from slurm_integration.policy import FABRIC, Do, decide
from slurm_integration.sandbox.faults.registry import Fault, find_fault, load_faults
from slurm_integration.sandbox.machine.files_system import settings_of
from slurm_integration.sandbox.machine.live import (
    STATE,
    break_machine,
    build_machine,
    machine_of,
    read_record,
    show_record,
    take_baseline,
)
from slurm_integration.sandbox.machine.look import look
from slurm_integration.sandbox.machine.types import NODE_TYPES

SILENT_DEADLINE_S = 5.5
"""Where NVML gives no answer: long enough for a call to count as hung (3.5 s)."""
VERDICTS = {Severity.FAIL: "no-go", Severity.WARN: "degraded"}


def cases(
    types: Iterable[str] = (), stages: Iterable[str] = (), faults: Iterable[str] = ()
) -> list[Case]:
    """All cases of these; nothing named means all of them. Raises FaultError for a wrong name."""
    chosen = list(faults)
    found = []
    for kind in types or NODE_TYPES:
        for stage in stages or STAGES:
            if not chosen:
                found.append(Case(kind, stage))
            for name in chosen or load_faults():
                if find_fault(name).applies_to(NODE_TYPES[kind]):
                    found.append(Case(kind, stage, name))
    return found


def play(wanted: Iterable[Case], workers: int = 1) -> Iterator[Played]:
    """Play them, some at a time; each worker has a machine of its own. In no order."""
    by_type: dict[str, list[Case]] = {}
    for case in wanted:
        by_type.setdefault(case.type, []).append(case)
    parts = [cases[n::workers] for cases in by_type.values() for n in range(workers)]
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        for played in pool.map(_play_all, filter(None, parts)):
            yield from played


def _play_all(part: list[Case]) -> list[Played]:
    # A probe that a fault kills would print a traceback of the whole drill.
    faulthandler.disable()
    with tempfile.TemporaryDirectory(prefix="flightcheck-drill-") as folder:
        root = f"{folder}/node"
        record = build_machine(root, part[0].type, "node07")
        take_baseline(root)
        with open(f"{root}/{STATE}/{FILE}", "rb") as file:
            baseline = file.read()
        done = []
        for case in part:
            if case.fault:
                break_machine(root, case.fault)
            done.append(_look(root, case))
            if read_record(root) != record:
                show_record(root, record)
            with open(f"{root}/{STATE}/{FILE}", "wb") as file:
                file.write(baseline)
    return done


def _look(root: str, case: Case) -> Played:
    fault = find_fault(case.fault) if case.fault else None
    healthy = machine_of(msgspec.structs.replace(read_record(root), faults=()))
    config: Config = settings_of(healthy)
    if fault and fault.silent:
        config = msgspec.structs.replace(config, deadline_s=SILENT_DEADLINE_S)
    job = _job(fault, len(healthy.gpu_functions()), case.stage)
    began = time.monotonic()
    report = look(root, healthy, case.stage, config=config, job=job).report
    seconds = time.monotonic() - began
    decision = decide(report, config)
    while _children():  # one that is on its way out would be counted in the next case
        time.sleep(0.005)
    return judge(case, fault, report, decision.do, seconds)


def _job(fault: Fault | None, gpus: int, stage: str) -> Job | None:
    """A job that was given the broken GPU, or another one, where the fault is about that."""
    if fault is None or fault.owned is None or stage in ("health", "sweep"):
        return None
    hit = gpus // 2
    return Job(4711, uid=1000, gpu_minors=(hit if fault.owned else (hit + 1) % gpus,))


def judge(case: Case, fault: Fault | None, report: Report, do: Do, seconds: float) -> Played:
    """What a look says against what it should say. Pure."""
    told = [(c, f) for c, f in report.findings() if f.severity is not Severity.INFO]
    # One that only informs (a program's own Xid) is to be found all the same.
    seen = any(check == (fault.check if fault else None) for check, _ in report.findings())
    blind = {o.check for o in report.outcomes if o.reason and o.outcome.value != "not-applicable"}
    verdict = report.verdict.value

    def played(end: End, wrong: str = "", why: str = "") -> Played:
        check = fault.check if fault else None
        subject = fault.module.rpartition(".")[2] if fault else "healthy"
        return Played(case, end, round(seconds, 3), verdict, do.value, subject, check, wrong, why)

    allowed = {fault.check, *fault.also} if fault else set()
    strangers = sorted({check for check, _ in told} - allowed)
    if strangers:
        return played(End.FALSE, f"accused without reason: {', '.join(strangers)}")
    if fault is None or fault.check is None:
        good = verdict == "go"
        return played(End.PASSED if good else End.FALSE, "" if good else f"verdict {verdict}")
    why = "" if seen else why_not_here(fault, case.stage)
    if why:
        return played(End.NOT_HERE, why=why)
    if not seen and not (fault.blind and fault.check in blind):
        return played(End.MISSED, f"verdict {verdict}")
    return played(End.FOUND, _wrong(fault, report, do))


def why_not_here(fault: Fault, stage: str) -> str:
    """Why this stage can't see it by design; "" where it must. Never at the fault's own stage."""
    if stage == fault.stage:
        return ""
    checks, _ = load_checks()
    if fault.check is None or stage not in checks[fault.check].stages:
        return f"{fault.check} does not run at this stage"
    if fault.owned is not None and stage not in ("prolog", "epilog"):
        return "without a job there is nobody whose GPU it could be"
    if stage == "prolog":
        return f"declared for {fault.stage}: a prolog has no time to read what shows it"
    return ""


def _wrong(fault: Fault, report: Report, do: Do) -> str:
    """What of verdict, action and decision is not as the fault declares; empty where all is."""
    if fault.blind:
        expected = "unknown"
    else:
        expected = VERDICTS.get(fault.severity, "go") if fault.severity else "go"
    if report.verdict.value != expected:
        return f"verdict {report.verdict.value}, expected {expected}"
    worst = [f for c, f in report.findings(fault.severity) if c == fault.check]
    if fault.severity and not fault.blind and fault.action not in {f.action for f in worst}:
        asked = ", ".join(sorted({f.action.value for f in worst})) or "nothing"
        return f"asks for {asked}, expected {fault.action.value}"
    right = {
        "no-go": Do.REQUEUE if all(f.subject == FABRIC for f in worst) else Do.DRAIN,
        "degraded": Do.ALERT, "unknown": Do.ALERT, "go": Do.PASS,
    }[expected]  # fmt: skip
    return "" if do is right else f"decision {do.value}, expected {right.value}"


def _children() -> bool:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        pids = file.read().split()
    alive = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:
                alive.append(b") Z" not in stat.read())
        except OSError:
            continue
    return any(alive)
