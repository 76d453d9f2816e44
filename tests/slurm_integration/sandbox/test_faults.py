"""Every fault of the sandbox, through the real pynvml, the C library, the probes and the checks."""

import os
import shutil

import msgspec
import pytest

from healthcheck.config import Config
from healthcheck.model import Ending, Finding, Job, Report, Severity
from healthcheck.registry import STAGES, load_checks
from slurm_integration.commands.sandbox_faults import verdict
from slurm_integration.sandbox.faults.registry import (
    Fault,
    FaultError,
    find_fault,
    load_faults,
)
from slurm_integration.sandbox.machine.files_system import settings_of
from slurm_integration.sandbox.machine.live import (
    break_machine,
    build_machine,
    forget_baseline,
    heal_machine,
    machine_of,
    read_record,
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
SHORT_DEADLINE_S = 5.5
"""Long enough for a call to count as hung (3.5 s), short enough for a test."""
ASKED_BY_ISSUE = (
    "gpu-lost gpu-missing gpu-config-ff xid-79 xid-48 xid-63 xid-94 xid-94-repeat xid-13-app "
    "xid-154-reset ecc-uncorrected ecc-lifetime-only row-remap-pending row-remap-failure "
    "power-brake-one power-brake-all thermal-slowdown idle-gen1 pcie-width-x8 aer-fatal "
    "aer-correctable-storm nvlink-down nvlink-replay fabric-not-ready p2p-broken ib-port-down "
    "ib-rate-low ib-no-sm ib-flap ib-unused-port ib-counter-saturated ib-counter-reset nvml-hang "
    "nvml-slow driver-mismatch persistence-off leftover-process memory-short disk-full "
    "stale-mount old-xid-before-boot"
).split()


def type_for(fault: Fault) -> str:
    return USUAL if USUAL in fault.types else fault.types[0]


CASES = [pytest.param(f, type_for(f), id=name) for name, f in load_faults().items()]


class Yard:
    """One machine of each type, mended again after each use."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def root(self, type_name: str) -> str:
        root = f"{self.folder}/{type_name}"
        if not os.path.isdir(root):
            build_machine(root, type_name, "node07")
            take_baseline(root)
        return root

    def mend(self) -> None:
        for name in os.listdir(self.folder):
            root = f"{self.folder}/{name}"
            if read_record(root).faults:
                heal_machine(root)
                forget_baseline(root)
                take_baseline(root)


@pytest.fixture(scope="module")
def yard_of_module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    yield Yard(str(folder))
    shutil.rmtree(folder)


@pytest.fixture
def yard(yard_of_module):
    yield yard_of_module
    yard_of_module.mend()


def job_for(fault: Fault, gpus: int, index: int | None = None) -> Job | None:
    """A job that starts on the broken GPU, or on another one."""
    if fault.owned is None:
        return None
    hit = gpus // 2 if index is None else index
    return Job(4711, uid=1000, gpu_minors=(hit if fault.owned else (hit + 1) % gpus,))


def judged(root: str, fault: Fault, index: int | None = None) -> Report:
    record = read_record(root)
    healthy = machine_of(msgspec.structs.replace(record, faults=()))
    config: Config = msgspec.structs.replace(settings_of(healthy), deadline_s=SHORT_DEADLINE_S)
    job = job_for(fault, len(healthy.gpu_functions()), index)
    return look(root, healthy, fault.stage, config=config, job=job).report


def findings_of(report: Report, check: str) -> list[Finding]:
    return [f for name, f in report.findings() if name == check]


@pytest.mark.parametrize(("fault", "type_name"), CASES)
def test_what_the_fault_declares_is_found_and_nothing_else(yard, fault, type_name):
    root = yard.root(type_name)
    break_machine(root, fault.name)

    report = judged(root, fault)

    found = findings_of(report, fault.check) if fault.check else []
    assert report.verdict == verdict(fault), summary(report)
    if fault.severity is not None:
        assert fault.severity in {f.severity for f in found}, summary(report)
        worst = [f for f in found if f.severity is fault.severity]
        assert fault.action in {f.action for f in worst}, summary(report)
    if fault.told is not None:
        reasons = [o.reason or "" for o in report.outcomes if o.check == fault.check]
        assert any(fault.told in text for text in [*(f.message for f in found), *reasons])
    others = {
        check
        for check, f in report.findings()
        if f.severity is not Severity.INFO and check != fault.check
    }
    assert others == set(fault.also), summary(report)
    blind = {o.check for o in report.outcomes if o.outcome in BLIND}
    assert fault.silent or not blind, summary(report)
    assert not [o for o in report.outcomes if o.outcome is Ending.ERROR], summary(report)


def summary(report: Report) -> str:
    lines = [f"{report.verdict}"]
    lines += [f"{c} {f.severity}: {f.subject}: {f.message} [{f.action}]" for c, f in report.findings()]
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


@pytest.mark.parametrize(
    "name",
    [f.name for f in load_faults().values() if f.check is None and USUAL in f.types],
)
def test_what_must_pass_passes_at_every_stage(yard, name):
    root = yard.root(USUAL)
    break_machine(root, name)
    healthy = machine_of(msgspec.structs.replace(read_record(root), faults=()))

    for stage in STAGES:
        report = look(root, healthy, stage).report

        assert report.verdict == "go", summary(report)


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
    found = findings_of(judged(root, fault, index), fault.check)

    assert [f.subject for f in found if f.severity is Severity.FAIL] == [hit] * len(found)


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("name", ["ib-port-down", "ib-rate-low", "ib-flap", "ib-symbol-errors"])
def test_a_finding_names_the_port_that_was_hit(yard, name, index):
    root = yard.root(USUAL)
    hit = machine_of(read_record(root)).hcas[index].name
    break_machine(root, f"{name}:{index}")

    fault = find_fault(name)

    assert [f.subject for f in findings_of(judged(root, fault), fault.check)] == [f"{hit}/1"]


@pytest.mark.parametrize("name", ["power-brake-all", "fabric-not-ready", "persistence-off"])
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


def test_a_hung_driver_is_judged_in_bounded_time_and_leaves_no_process(yard):
    root = yard.root(USUAL)
    break_machine(root, "nvml-hang:2")

    report = judged(root, find_fault("nvml-hang"))

    assert report.duration_s < SHORT_DEADLINE_S
    (finding,) = findings_of(report, "driver-responsive")
    assert finding.subject == machine_of(read_record(root)).nvml.gpus[2].bus_id
    assert not children_alive()


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


def test_every_check_of_the_prolog_has_a_fault_that_it_finds():
    found = {fault.check for fault in load_faults().values()}
    checks, _ = load_checks()

    lacking = {name for name, check in checks.items() if check.module.startswith("healthcheck.")}

    assert lacking - found == {"gpu-driver-version", "gpu-presence", "pcie-responsive"}


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
