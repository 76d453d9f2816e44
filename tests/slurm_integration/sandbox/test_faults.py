"""Every fault of the sandbox, through the real pynvml, the C library, the probes and the checks."""

import faulthandler
import os
import shutil
import sys
import time
from pathlib import Path

import msgspec
import pytest

from healthcheck.baseline import FILE
from healthcheck.config import Config
from healthcheck.model import Ending, Finding, Job, Report, Severity
from healthcheck.profile import BUILTIN_DIR, load_profile
from healthcheck.registry import STAGES, load_checks
from slurm_integration.commands.sandbox_faults import verdict
from slurm_integration.sandbox.faults.registry import (
    Fault,
    FaultError,
    find_fault,
    load_faults,
)
from slurm_integration.sandbox.machine.describe import describe
from slurm_integration.sandbox.machine.files_system import settings_of
from slurm_integration.sandbox.machine.live import (
    STATE,
    Record,
    break_machine,
    build_machine,
    machine_of,
    read_record,
    show_record,
    take_baseline,
)
from slurm_integration.sandbox.machine.look import look
from slurm_integration.sandbox.machine.types import NODE_TYPES

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")),
    reason="no C compiler: the simulated NVML is compiled from C",
)

USUAL = "h100-sxm"
BLIND = {Ending.ERROR, Ending.UNMEASURED, Ending.TIMED_OUT}
DEADLINE_S = Config().deadline_s
SHORT_DEADLINE_S = 5.5
"""Long enough for a call to count as hung (3.5 s), short enough for a test."""
ASKED_BY_ISSUE = [
    "gpu-lost",
    "gpu-missing",
    "gpu-config-ff",
    "xid-79",
    "xid-48",
    "xid-63",
    "xid-94",
    "xid-94-repeat",
    "xid-13-app",
    "xid-154-reset",
    "ecc-uncorrected",
    "ecc-lifetime-only",
    "row-remap-pending",
    "row-remap-failure",
    "power-brake-one",
    "power-brake-all",
    "thermal-slowdown",
    "idle-gen1",
    "pcie-width-x8",
    "aer-fatal",
    "aer-correctable-storm",
    "nvlink-down",
    "nvlink-replay",
    "fabric-not-ready",
    "p2p-broken",
    "ib-port-down",
    "ib-rate-low",
    "ib-no-sm",
    "ib-flap",
    "ib-unused-port",
    "ib-counter-saturated",
    "ib-counter-reset",
    "nvml-hang",
    "nvml-slow",
    "driver-mismatch",
    "persistence-off",
    "leftover-process",
    "memory-short",
    "disk-full",
    "stale-mount",
    "old-xid-before-boot",
]


def type_for(fault: Fault) -> str:
    return USUAL if USUAL in fault.types else fault.types[0]


CASES = [pytest.param(f, type_for(f), id=name) for name, f in load_faults().items()]


class Yard:
    """One machine of each type, as healthy before each test as when it was built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.built: dict[str, tuple[Record, bytes]] = {}

    def root(self, type_name: str) -> str:
        root = str(self.folder / type_name)
        if type_name not in self.built:
            record = build_machine(root, type_name, "node07")
            take_baseline(root)
            self.built[type_name] = (record, self._baseline(type_name).read_bytes())
        return root

    def mend(self) -> None:
        for type_name, (record, baseline) in self.built.items():
            root = self.root(type_name)
            if read_record(root) != record:
                show_record(root, record)
            self._baseline(type_name).write_bytes(baseline)

    def _baseline(self, type_name: str) -> Path:
        return self.folder / type_name / STATE / FILE


@pytest.fixture(scope="module")
def yard_of_module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    yield Yard(folder)
    shutil.rmtree(folder)


@pytest.fixture
def yard(yard_of_module):
    # A probe that a fault kills would print a traceback of the whole test run.
    faulthandler.disable()
    yield yard_of_module
    faulthandler.enable(sys.__stderr__)
    yard_of_module.mend()


def job_for(fault: Fault, gpus: int, index: int | None = None) -> Job | None:
    """A job that starts on the broken GPU, or on another one."""
    if fault.owned is None:
        return None
    hit = gpus // 2 if index is None else index
    return Job(4711, uid=1000, gpu_minors=(hit if fault.owned else (hit + 1) % gpus,))


def judged(root: str, fault: Fault, stage: str | None = None, index: int | None = None) -> Report:
    record = read_record(root)
    healthy = machine_of(msgspec.structs.replace(record, faults=()))
    config: Config = settings_of(healthy)
    if fault.silent:
        config = msgspec.structs.replace(config, deadline_s=SHORT_DEADLINE_S)
    job = job_for(fault, len(healthy.gpu_functions()), index)
    return look(root, healthy, stage or fault.stage, config=config, job=job).report


def findings_of(report: Report, check: str) -> list[Finding]:
    return [f for name, f in report.findings() if name == check]


@pytest.mark.parametrize(("fault", "type_name"), CASES)
def test_what_the_fault_declares_is_found_and_nothing_else(yard, fault, type_name):
    root = yard.root(type_name)
    gpus = {f.bus_id for f in machine_of(read_record(root)).gpu_functions()}
    break_machine(root, fault.name)

    for stage in STAGES if fault.check is None else (fault.stage,):
        report = judged(root, fault, stage)

        assert report.verdict == verdict(fault), summary(report)
        others = {c for c, f in told(report) if c != fault.check}
        assert others == set(fault.also), summary(report)
        blind = {o.check for o in report.outcomes if o.outcome in BLIND}
        assert fault.silent or not blind, summary(report)
        assert not [o for o in report.outcomes if o.outcome is Ending.ERROR], summary(report)
        accused = {f.subject for _, f in told(report)} & gpus
        assert len(accused) <= 1 or accused == gpus, summary(report)
        assert report.duration_s < DEADLINE_S
        assert_no_child_stays()
    if fault.check is not None:
        assert_found(fault, report)


def assert_found(fault: Fault, report: Report) -> None:
    found = findings_of(report, fault.check)
    worst = [f for f in found if f.severity is fault.severity]
    if fault.severity is not None:
        assert fault.action in {f.action for f in worst}, summary(report)
    if fault.told is not None:
        reasons = [o.reason or "" for o in report.outcomes if o.check == fault.check]
        assert any(fault.told in text for text in [*(f.message for f in found), *reasons])


def told(report: Report) -> list[tuple[str, Finding]]:
    """Findings that judge the node."""
    return [(check, f) for check, f in report.findings() if f.severity is not Severity.INFO]


def summary(report: Report) -> str:
    lines = [f"{report.verdict}"]
    lines += [
        f"{c} {f.severity}: {f.subject}: {f.message} [{f.action}]" for c, f in report.findings()
    ]
    lines += [f"{o.check}: {o.outcome}: {o.reason}" for o in report.outcomes if o.outcome in BLIND]
    return "\n".join(lines)


@pytest.mark.parametrize("type_name", sorted(NODE_TYPES))
def test_a_healthy_machine_of_every_type_is_go_at_every_stage(yard, type_name):
    root = yard.root(type_name)
    machine = machine_of(read_record(root))

    for stage in STAGES:
        report = look(root, machine, stage).report

        assert report.verdict == "go", summary(report)
        assert report.profile == type_name
        assert not report.findings()
        assert not [o for o in report.outcomes if o.outcome in BLIND]


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize(
    "name",
    ["xid-79", "gpu-lost", "gpu-missing", "gpu-hidden", "ecc-uncorrected", "row-remap-failure",
     "nvlink-down", "pcie-width-x8", "aer-fatal", "leftover-process", "gpu-reset-required"],
)  # fmt: skip
def test_a_finding_names_the_gpu_that_was_hit(yard, name, index):
    root = yard.root(USUAL)
    hit = machine_of(read_record(root)).nvml.gpus[index].bus_id
    break_machine(root, f"{name}:{index}")

    fault = find_fault(name)
    found = findings_of(judged(root, fault, index=index), fault.check)

    assert [f.subject for f in found if f.severity is Severity.FAIL] == [hit] * len(found)


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("name", ["ib-port-down", "ib-rate-low", "ib-flap", "ib-symbol-errors"])
def test_a_finding_names_the_port_that_was_hit(yard, name, index):
    root = yard.root(USUAL)
    hit = machine_of(read_record(root)).hcas[index].name
    break_machine(root, f"{name}:{index}")

    fault = find_fault(name)

    assert [f.subject for f in findings_of(judged(root, fault), fault.check)] == [f"{hit}/1"]


@pytest.mark.parametrize("name", ["fabric-not-ready", "persistence-off"])
def test_what_hits_all_gpus_alike_is_one_finding_about_the_node(yard, name):
    root = yard.root(USUAL)
    break_machine(root, name)

    fault = find_fault(name)
    found = findings_of(judged(root, fault), fault.check)

    assert [f.subject for f in found] == ["node"]


def test_eight_gpus_off_the_bus_in_turn_are_all_named(yard):
    root = yard.root(USUAL)
    addresses = {gpu.bus_id for gpu in machine_of(read_record(root)).nvml.gpus}
    break_machine(root, *(f"gpu-config-ff:{index}" for index in range(8)))

    found = findings_of(judged(root, find_fault("gpu-config-ff")), "gpu-visibility")

    assert {f.subject for f in found} == addresses


def assert_no_child_stays() -> None:
    """A child that has sent its facts may still be on its way out; none may be there for good."""
    until = time.monotonic() + 60
    while (alive := children_alive()) and time.monotonic() < until:
        time.sleep(0.02)
    assert not alive


def children_alive() -> list[str]:
    """Living children of this process: a probe that was left behind would be one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if int(parent) == os.getpid() and state != "Z":
            found.append(name)
    return found


def test_every_fault_of_the_issue_is_there():
    assert set(ASKED_BY_ISSUE) <= set(load_faults())
    assert len(load_faults()) >= 45


def test_every_fault_names_a_check_that_exists_and_a_stage_where_it_runs():
    checks, _ = load_checks()
    for fault in load_faults().values():
        for check in filter(None, (fault.check, *fault.also)):
            assert fault.stage in checks[check].stages, fault.name
        assert fault.text.endswith("."), fault.name
        assert fault.types, f"{fault.name}: no node type can have it"


def test_a_fault_is_offered_only_where_the_profile_could_find_it():
    checks, _ = load_checks()
    for name, kind in NODE_TYPES.items():
        profile = load_profile(name, [BUILTIN_DIR])
        site = settings_of(describe(kind, "node07")).checks
        for fault in load_faults().values():
            check = checks.get(fault.check)
            if check is None or not fault.applies_to(kind) or not check.needs_profile():
                continue
            assert check.name in profile.checks or check.name in site, (fault.name, name)


def test_every_check_that_needs_no_real_gpu_has_a_fault_that_it_finds():
    found = {fault.check for fault in load_faults().values()}
    checks, _ = load_checks()

    own = {name for name, check in checks.items() if check.module.startswith("healthcheck.")}
    # No profile names a driver version; gpu-presence shows beside gpu-count (all-gpus-gone).
    expected = {n for n in own if not n.startswith("allreduce-")}
    assert expected - found == {"gpu-driver-version", "gpu-presence"}


@pytest.mark.parametrize(
    ("spelled", "told"),
    [("xid-709", "did you mean .*xid-79"), ("xid-79:8", "8 GPUs"), ("xid-79:x", "NAME:NUMBER"),
     ("xid-145-fatal", "no nvlink5")],
)  # fmt: skip
def test_an_impossible_fault_is_refused_and_changes_nothing(yard, spelled, told):
    root = yard.root(USUAL)
    before = read_record(root)

    with pytest.raises(FaultError, match=told):
        break_machine(root, "ecc-off", spelled)

    assert read_record(root) == before
