"""The drill itself: it finds what is there, and says so where something is missed or accused."""

import shutil

import msgspec
import pytest
from click.testing import CliRunner

from healthcheck.model import Action, Ending, Outcome, Report, Severity, Verdict, fail, warn
from healthcheck.registry import STAGES
from slurm_integration.commands.drill import command
from slurm_integration.drill.cluster import slurm_cases
from slurm_integration.drill.model import Case, End, Played
from slurm_integration.drill.play import cases, judge, play
from slurm_integration.drill.text import tables
from slurm_integration.policy import Do
from slurm_integration.sandbox.cluster import SandboxError
from slurm_integration.sandbox.faults.registry import find_fault, load_faults
from slurm_integration.sandbox.machine.types import NODE_TYPES

USUAL = "h100-sxm"
compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")),
    reason="no C compiler: the simulated NVML is compiled from C",
)


def report(check: str | None, made=fail, action: Action = Action.REBOOT) -> Report:  # type: ignore[no-untyped-def]
    findings = (made("0000:1b:00.0", "x", action=action),) if check else ()
    outcome = Outcome(check or "clock", Ending.FOUND if check else Ending.PASSED, findings)
    verdict = {fail: Verdict.NO_GO, warn: Verdict.DEGRADED}[made] if check else Verdict.GO
    return Report(verdict, "n", USUAL, "prolog", 0.1, (outcome,))


def judged(fault: str | None, seen: Report, do: Do, stage: str = "prolog") -> Played:
    case = Case(USUAL, stage, fault)
    return judge(case, find_fault(fault) if fault else None, seen, do, 0.1)


def test_a_found_fault_is_good():
    one = judged("gpu-missing", report("gpu-count"), Do.DRAIN)
    assert (one.end, one.good, one.subject) == (End.FOUND, True, "gpu_bus")


def test_a_missed_fault_is_not_good():
    one = judged("gpu-missing", report(None), Do.PASS)
    assert (one.end, one.good) == (End.MISSED, False)


def test_another_check_is_an_accusation_without_reason():
    one = judged("gpu-missing", report("clock"), Do.DRAIN)
    assert one.end is End.FALSE
    assert "clock" in one.wrong


def test_a_finding_on_a_healthy_or_must_pass_node_is_false():
    for fault in (None, "idle-gen1"):
        one = judged(fault, report("gpu-count"), Do.DRAIN)
        assert (one.end, one.good) == (End.FALSE, False)
        assert judged(fault, report(None), Do.PASS).end is End.PASSED


@pytest.mark.parametrize(
    ("seen", "do", "told"),
    [
        (report("gpu-count", warn), Do.ALERT, "verdict degraded, expected no-go"),
        (report("gpu-count", action=Action.REPLACE), Do.DRAIN, "asks for replace, expected reboot"),
        (report("gpu-count"), Do.ALERT, "decision alert, expected drain"),
    ],
)
def test_right_check_with_wrong_severity_action_or_decision_is_not_good(seen, do, told):
    one = judged("gpu-missing", seen, do)
    assert (one.end, one.wrong, one.good) == (End.FOUND, told, False)


@pytest.mark.parametrize(
    ("fault", "stage", "why"),
    [
        ("zombies", "prolog", "processes does not run at this stage"),
        ("psu-failed", "prolog", "declared for sweep"),
        ("leftover-memory", "sweep", "does not run"),
    ],
)
def test_what_a_stage_does_not_look_for_is_said_with_its_reason(fault, stage, why):
    one = judged(fault, report(None), Do.PASS, stage)
    assert (one.end, one.good) == (End.NOT_HERE, True)
    assert why in one.why


@pytest.mark.parametrize("name", list(load_faults()))
def test_no_fault_may_be_left_out_at_the_stage_it_is_declared_for(name):
    fault = find_fault(name)
    one = judged(name, report(None), Do.PASS, fault.stage)
    assert one.end in (End.PASSED if fault.check is None else End.MISSED,)


def test_the_whole_drill_is_every_fault_at_every_stage_on_every_type():
    whole = cases()
    assert {case.type for case in whole} == set(NODE_TYPES)
    assert sum(case.fault is None for case in whole) == len(NODE_TYPES) * len(STAGES)
    wanted = sum(len(fault.types) for fault in load_faults().values()) * len(STAGES)
    assert sum(case.fault is not None for case in whole) == wanted


def test_tables_say_what_went_wrong_and_what_was_not_looked_for():
    played = [
        judged("gpu-missing", report("gpu-count"), Do.DRAIN),
        judged("xid-79", report(None), Do.PASS),
        judged("zombies", report(None), Do.PASS),
    ]
    text = "\n".join(tables(played))
    assert "1 of 3 cases went wrong:" in text
    assert "xid-79 on h100-sxm at prolog [xid]: missed" in text
    assert "prolog: processes does not run at this stage (zombies)" in text
    assert text.splitlines()[1].split()[:4] == ["prolog", "3", "1", "1"]


def test_the_set_for_slurm_has_each_subject_and_a_healthy_node_at_each_stage():
    chosen = slurm_cases((), (), ())
    modules = {fault.module for fault in load_faults().values()}
    for stage in STAGES:
        names = [case.fault for case in chosen if case.stage == stage]
        assert None in names
        assert {find_fault(name).module for name in names if name} == modules
    assert len(slurm_cases((), (), (), everything=True)) > len(chosen)
    with pytest.raises(SandboxError, match="one type"):
        slurm_cases(("h100-sxm", "h200-sxm"), (), ())


@compiler
def test_every_fault_is_found_at_the_prolog_and_a_sample_at_the_other_stages():
    sample = [name for number, name in enumerate(load_faults()) if number % 14 == 0]
    wanted = [case for case in cases([USUAL], ["prolog"]) if not _silent(case)]
    wanted += cases([USUAL], ["epilog", "health", "sweep"], sample)
    wanted += [Case(kind, "prolog") for kind in NODE_TYPES if kind != USUAL]
    played = list(play(wanted, 2))
    assert len(played) == len(wanted)
    assert [one for one in played if not one.good] == []


def _silent(case: Case) -> bool:
    """Those of the driver cost four seconds each; the faults' own tests play them all."""
    return case.fault is not None and find_fault(case.fault).silent


@compiler
def test_the_command_exits_with_zero_and_gives_a_line_of_json_a_case():
    argv = ["--type", "cpu-only", "--stage", "prolog", "--fault", "disk-full", "--json"]
    done = CliRunner().invoke(command, argv, standalone_mode=False)
    assert done.return_value == 0, done.output
    (one,) = [msgspec.json.decode(line, type=Played) for line in done.output.splitlines()]
    assert (one.end, one.check) == (End.FOUND, "filesystem-space")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--fault", "xid-709"], "did you mean"),
        (["--type", "h1000"], "there are"),
        (["--node", "node01"], "--dry-run"),
        (["--snapshot", "x"], "--dry-run"),
        (["--slurm", "--dry-run"], "not with --dry-run"),
        (["--dry-run", "--snapshot", "/nowhere"], "No such file"),
        (["--type", "cpu-only", "--fault", "xid-79"], "no such case"),
    ],
)
def test_what_can_not_be_played_is_said(argv, told):
    done = CliRunner().invoke(command, argv, standalone_mode=False)
    assert done.return_value != 0
    assert told in f"{done.output}{done.exception}"


def test_severities_of_faults_have_a_decision_each():
    severities = {fault.severity for fault in load_faults().values()}
    assert severities == {None, Severity.FAIL, Severity.WARN}
