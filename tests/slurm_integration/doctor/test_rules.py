"""Each rule on facts that are wrong in one place. The facts of a good cluster give nothing."""

import msgspec
import pytest
from facts_for_doctor import (
    HOOKS,
    complaints,
    facts,
    hook,
    rules,
    script,
    settings,
    slurm,
    spoilt_hook,
)

from healthcheck.config import Config
from slurm_integration.doctor import registry
from slurm_integration.doctor.model import (
    Folder,
    GresLine,
    Hardware,
    Installation,
    Interpreter,
    Plugin,
    Program,
)


def without(name: str):
    return tuple(hook(key, one) for key, one in HOOKS.items() if key != name)


def with_hook(name: str, new):
    return facts(hooks=(*without(name), new))


def test_a_good_cluster_hears_nothing():
    assert complaints(facts()) == []


SLURM = {
    "no flags": ({"PrologFlags": ""}, ["wrong prolog-flags"] * 2 + ["advice prolog-flags"]),
    "no Alloc": ({"PrologFlags": "DeferBatch"}, ["wrong prolog-flags", "advice prolog-flags"]),
    "no DeferBatch": ({"PrologFlags": "Alloc,Contain"}, ["wrong prolog-flags"]),
    "no Contain": ({"PrologFlags": "Alloc,DeferBatch"}, ["advice prolog-flags"]),
    "Contain implies Alloc": ({"PrologFlags": "contain,deferbatch"}, []),
    "X11 implies both": ({"PrologFlags": "X11,DeferBatch"}, []),
    "RunInJob": ({"PrologFlags": "Alloc,Contain,DeferBatch,RunInJob"}, ["wrong prolog-run-in-job"]),
    "Serial": ({"PrologFlags": "Alloc,Contain,DeferBatch,Serial"}, ["advice prolog-serial"]),
    "held": ({"SchedulerParameters": "bf_interval=30"}, ["wrong hold-on-prolog-fail"]),
    "held, nothing set": ({"SchedulerParameters": ""}, ["wrong hold-on-prolog-fail"]),
    "no requeue": ({"JobRequeue": "0"}, ["advice job-requeue"]),
    "no requeue, forced": (
        {"JobRequeue": "0", "PrologFlags": "Alloc,Contain,DeferBatch,ForceRequeueOnFail"}, []),
    "cred_expire of 4": ({"AuthInfo": "cred_expire=4"}, ["wrong cred-expire"]),
    "cred_expire below the deadline": ({"AuthInfo": "cred_expire=6"}, ["wrong cred-expire"]),
    "cred_expire of 1200": ({"AuthInfo": "cred_expire=1200"}, ["advice cred-expire"]),
    "cred_expire by default": ({"AuthInfo": ""}, []),
    "timeout of hooks": ({"PrologEpilogTimeout": "20 sec"}, ["wrong prolog-epilog-timeout"]),
    "timeout of prologs": ({"PrologTimeout": "10 sec"}, ["wrong prolog-epilog-timeout"]),
    "timeout that is long": ({"PrologEpilogTimeout": "120 sec"}, []),
    "MessageTimeout": ({"MessageTimeout": "9 sec"}, ["advice message-timeout"]),
    "BatchStartTimeout": ({"BatchStartTimeout": "5 sec"}, ["advice batch-start-timeout"]),
    "unkillable": ({"UnkillableStepTimeout": "20 sec"}, ["advice unkillable-step-timeout"]),
    "SlurmdTimeout of 0": ({"SlurmdTimeout": "0 sec"}, ["advice slurmd-timeout"]),
    "SlurmdTimeout of 10": ({"SlurmdTimeout": "10 sec"}, ["advice slurmd-timeout"]),
    "health never runs": ({"HealthCheckInterval": "0 sec"}, ["wrong health-interval"]),
    "health too often": ({"HealthCheckInterval": "20 sec"}, ["advice health-interval"]),
    "health too seldom": ({"HealthCheckInterval": "86400 sec"}, ["advice health-interval"]),
    "health on busy nodes": ({"HealthCheckNodeState": "ALLOC"}, ["advice health-node-state"]),
    "health, in rounds": ({"HealthCheckNodeState": "ANY,CYCLE"}, []),
    "slurmd not root": ({"SlurmdUser": "slurm(64030)"}, ["wrong slurmd-user"]),
    "comes back by itself": ({"ReturnToService": "2"}, ["advice return-to-service"]),
}  # fmt: skip


@pytest.mark.parametrize("case", SLURM)
def test_slurms_configuration(case):
    values, expected = SLURM[case]
    assert sorted(rules(facts(slurm=slurm(**values)))) == sorted(expected)


def test_the_mended_line_keeps_what_the_site_has_and_drops_the_traps():
    found = complaints(facts(slurm=slurm(PrologFlags="NoHold,RunInJob,alloc")))
    assert {one.mend for one in found} == {"PrologFlags=NoHold,alloc,Contain,DeferBatch"}


def test_a_hook_that_is_not_set():
    assert rules(facts(slurm=slurm(Prolog=""), hooks=without("Prolog"))) == ["wrong prolog-set"]
    for name, rule in (("Epilog", "epilog-set"), ("TaskProlog", "task-prolog-set")):
        found = rules(facts(slurm=slurm(**{name: ""}), hooks=without(name)))
        assert found == [f"advice {rule}"]
    gone = facts(slurm=slurm(HealthCheckProgram=""), hooks=without("HealthCheckProgram"))
    assert rules(gone) == ["advice health-program"]


def test_a_hook_that_does_not_call_us():
    assert rules(spoilt_hook("Prolog", programs=())) == ["wrong prolog-set"]
    assert rules(spoilt_hook("Epilog", programs=())) == ["advice epilog-set"]
    found = complaints(spoilt_hook("HealthCheckProgram", programs=()))
    assert [one.rule for one in found] == ["health-program"]
    assert "room for one" in found[0].mend


def test_a_hook_that_two_lines_or_two_scripts_call():
    again = hook("Prolog", script("other", "flightcheck-prolog"))
    found = complaints(facts(hooks=(*facts().hooks, again)))
    assert [(one.rule, one.level.value) for one in found] == [("called-twice", "advice")]
    assert "calls flightcheck-prolog 2 times" in found[0].what


def test_a_binary_hook_can_not_be_seen_into_and_is_not_blamed():
    assert rules(spoilt_hook("Prolog", programs=(), binary=True, first_line="")) == []


def test_a_glob_that_matches_nothing_drains_every_node():
    empty = hook("Prolog", pattern="/etc/slurm/prolog.d/*", globbed=True)
    found = complaints(with_hook("Prolog", empty))
    assert [(one.rule, one.level.value) for one in found] == [("empty-glob", "wrong")]
    assert "drained" in found[0].why


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"problem": "not there"}, ["wrong hook-missing"]),
        ({"mode": 0o644}, ["wrong hook-not-executable"]),
        ({"first_line": "echo hello"}, ["wrong hook-interpreter"]),
        ({"interpreter_missing": "/bin/sh\r"}, ["wrong hook-interpreter"]),
        ({"loose": ("/etc/slurm is mode 0777",)}, ["wrong hook-owner"]),
        ({"sets": frozenset({"PATH"})}, ["advice hook-home"]),
    ],
)
def test_a_script_that_does_not_fit(changed, expected):
    found = [one for one in rules(spoilt_hook("Prolog", **changed)) if "prolog-set" not in one]
    assert found == expected


def test_windows_line_ends_are_named_with_their_remedy():
    found = complaints(spoilt_hook("Prolog", interpreter_missing="/bin/sh\r"))
    assert "sed -i" in found[0].mend


@pytest.mark.parametrize("written", ["/opt/gone/bin/flightcheck-prolog", "flightcheck-prolog"])
def test_a_script_that_calls_a_flightcheck_that_is_not_there(written):
    lost = Program("flightcheck-prolog", written, "", False)
    assert rules(spoilt_hook("Prolog", programs=(lost,))) == ["wrong hook-program"]


def test_a_task_prolog_that_users_can_not_run():
    assert rules(spoilt_hook("TaskProlog", closed=("/etc/slurm is mode 0700",))) == [
        "wrong task-prolog-readable"
    ]


def test_on_a_host_without_slurmd_scripts_may_be_missing():
    gone = script("prolog", "flightcheck-prolog", problem="not there", programs=())
    found = with_hook("Prolog", hook("Prolog", gone))
    assert "wrong hook-missing" in rules(found)
    assert rules(msgspec.structs.replace(found, is_node=False)) == []


@pytest.mark.parametrize(("off", "expected"), [(3, []), (-20, ["advice clock"]),
                                               (400, ["wrong clock"])])  # fmt: skip
def test_the_clock_against_slurmctlds(off, expected):
    good = facts()
    assert good.slurm.as_of == good.now
    assert rules(facts(now=good.now + off)) == expected


NODE = {
    "no slurm": (
        {"slurm": None, "slurm_trouble": "scontrol timed out"}, ["wrong slurm-reachable"]),
    "two installations": (
        {"installations": (Installation("/opt/flightcheck", "0.1.0", ("Prolog",)),
                           Installation("/root/venv", "", ("this command",)))},
        ["wrong two-installations"]),
    "not compiled": ({"interpreter": Interpreter("/p", 0.02, "", 7, 400, "/opt")},
                     ["advice compiled"]),
    "slow": ({"interpreter": Interpreter("/p", 1.4)}, ["advice interpreter"]),
    "broken": ({"interpreter": Interpreter("/p", None, "does not start")}, ["wrong interpreter"]),
    "no NVML": ({"hardware": Hardware(8, "no libnvidia-ml.so.1")}, ["wrong nvml"]),
    "no GPUs": ({"hardware": Hardware(0, "no libnvidia-ml.so.1")}, []),
    "munge": ({"munge_socket": "/run/m", "munge_problem": "no such file"}, ["wrong munge"]),
    "state folder": (
        {"folders": (Folder("state_dir", "/s", True, loose=("/s is mode 0777",)),)},
        ["wrong folders"]),
    "shared folder": ({"folders": (Folder("shared_dir", "/s", False, "not there"),)},
                      ["wrong folders"]),
    "plugin of another release": (
        {"plugins": (Plugin("/p", 1, False, "/f.so", built_for=(24, 11)),)},
        ["wrong spank-release"]),
    "plugin required": (
        {"plugins": (Plugin("/p", 1, True, "/f.so", built_for=(22, 5)),)},
        ["advice spank-required"]),
    "plugin missing": ({"plugins": (Plugin("/p", 1, False, "/f.so", "not there"),)},
                       ["advice spank-file"]),
    "plugin missing and required": (
        {"plugins": (Plugin("/p", 1, True, "/f.so", "not there"),)},
        ["wrong spank-file", "advice spank-required"]),
    "gres": ({"gres": (GresLine("/g", 3, "Name=gpu Count=8", False),)}, ["wrong gres-devices"]),
    "refused": (
        {"settings": settings(refused=True, config=Config(), notes=("line 1: x", "defaults"))},
        ["wrong config-refused"]),
    "config of all": ({"settings": settings(loose=("/c is mode 0666",))}, ["wrong config-owner"]),
    "dry run": ({"settings": settings(config=Config())}, ["advice dry-run"]),
    "history": ({"history_problem": "connection refused"}, ["wrong history"]),
}  # fmt: skip


@pytest.mark.parametrize("case", NODE)
def test_the_node(case):
    changed, expected = NODE[case]
    assert rules(facts(**changed)) == expected


def test_every_complaint_says_what_why_and_how_to_mend_it():
    spoilt = [facts(slurm=slurm(**values)) for values, _ in SLURM.values()]
    spoilt += [facts(**changed) for changed, _ in NODE.values()]
    for found in spoilt:
        for one in complaints(found):
            assert one.subject and one.what and one.why and one.mend and one.rule, one


def test_every_rule_has_a_case_here():
    """A rule without a case would never be seen to work."""
    text = open(__file__).read()  # noqa: SIM115
    missing = [name for name in registry.load_rules() if f" {name}\"" not in text
               and f"\"{name}\"" not in text]  # fmt: skip
    assert missing == []


def test_a_rule_that_breaks_does_not_hide_the_others(monkeypatch):
    def broken(_):
        raise KeyError("x")
        yield

    monkeypatch.setitem(registry._RULES, "broken", broken)
    found = rules(facts(slurm=slurm(JobRequeue="0")))
    assert sorted(found) == ["advice broken", "advice job-requeue"]


def test_odd_values_break_no_rule():
    for name in facts().slurm.values:
        for value in ("", "(null)", "x" * 5000, "-1", "99999999999999", "\x1b[2J", "=,=,"):
            found = complaints(facts(slurm=slurm(**{name: value})))
            assert not any("broke" in one.what for one in found), (name, value)
