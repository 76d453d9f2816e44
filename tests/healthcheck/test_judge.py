"""Outcomes and verdicts: only findings judge, and nothing hides behind "ok"."""

from collections.abc import Iterator
from datetime import date

import msgspec
import pytest

from healthcheck.config import CheckSettings, Config
from healthcheck.judge import Selection, judge, judge_one
from healthcheck.model import (
    Ending,
    NotApplicable,
    Outcome,
    Problem,
    Severity,
    Snapshot,
    Unmeasured,
    Verdict,
    fail,
    info,
    verdict_of,
    warn,
)
from healthcheck.profile import Figure, Profile
from healthcheck.registry import Check

TODAY = date(2026, 12, 1)
NODE = Snapshot(node="n1", taken_at=0.0)
PROFILE = Profile("p", "P", checks={"sample": {"most": Figure(3, "the datasheet")}})


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    most: int


class Optional(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    most: int = 3


def declare(rule, needs=(), limits=Limits, stages=("prolog", "sweep"), name="sample"):
    return Check(name, rule, tuple(needs), stages, limits, "doc", "the rule's source", "tests")


def ending(rule, settings=CheckSettings(), node=NODE, profile=PROFILE, **kinds):
    return judge_one(node, declare(rule, **kinds), profile, settings, TODAY)


def quiet(node, limits) -> Iterator:
    yield from ()


def failing(node, limits) -> Iterator:
    yield fail("gpu0", f"above {limits.most}", limit="most")


def test_no_findings_is_passed():
    assert ending(quiet).outcome is Ending.PASSED


def test_a_finding_gets_the_source_of_the_limit_it_passed():
    (finding,) = ending(failing).findings
    assert finding.source == "the datasheet"


def test_a_limit_set_by_the_site_says_so():
    (finding,) = ending(failing, CheckSettings(limits={"most": 9})).findings
    assert (finding.message, finding.source) == ("above 9", "site configuration")


def test_a_check_whose_limits_nobody_sets_does_not_apply():
    outcome = ending(failing, profile=Profile("bare", "Bare"))
    assert outcome.outcome is Ending.NOT_APPLICABLE
    assert "bare" in outcome.reason


def test_a_check_with_defaults_applies_everywhere():
    assert ending(failing, profile=Profile("bare", "Bare"), limits=Optional).findings


def test_a_check_switched_off_is_told_as_not_applicable():
    outcome = ending(failing, CheckSettings(enabled=False))
    assert outcome.outcome is Ending.NOT_APPLICABLE
    assert "switched off" in outcome.reason


@pytest.mark.parametrize(
    ("day", "severity"),
    [(date(2026, 12, 1), Severity.INFO), (date(2026, 11, 30), Severity.FAIL)],
)
def test_a_waiver_holds_until_its_day(day, severity):
    settings = CheckSettings(waive_until=day, waive_reason="ticket 7")
    (finding,) = ending(failing, settings).findings
    assert finding.severity is severity
    assert ("ticket 7" in finding.message) is (severity is Severity.INFO)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("denied", Ending.UNMEASURED), ("absent", Ending.UNMEASURED), ("hung", Ending.TIMED_OUT),
     ("slow", Ending.TIMED_OUT)],
)  # fmt: skip
def test_missing_facts_are_never_passed(kind, expected):
    node = Snapshot(node="n1", taken_at=0.0, problems={"gpus": Problem(kind, "because")})
    outcome = ending(quiet, node=node, needs=("gpus",))
    assert outcome.outcome is expected
    assert "because" in outcome.reason


def test_a_check_may_say_that_it_does_not_apply_or_cannot_know():
    def inapplicable(node, limits):
        raise NotApplicable("no NVLink on PCIe cards")
        yield

    def blind(node, limits):
        raise Unmeasured("counter saturated")
        yield

    assert ending(inapplicable).outcome is Ending.NOT_APPLICABLE
    assert ending(blind).reason == "counter saturated"


def test_one_broken_check_never_hides_the_others():
    def broken(node, limits):
        raise KeyError("oops")
        yield

    checks = [declare(broken, name="a-broken", limits=Optional), declare(failing)]
    outcomes = judge(NODE, checks, {"pkg.site_rule": "SyntaxError: x"}, PROFILE, Config(),
                     Selection("prolog"), TODAY)  # fmt: skip
    assert [(o.check, o.outcome) for o in outcomes] == [
        ("a-broken", Ending.ERROR),
        ("sample", Ending.FOUND),
        ("site-rule", Ending.ERROR),
    ]


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(1), RecursionError(), MemoryError()])
def test_whatever_a_rule_does_is_an_error_of_that_check_alone(error):
    def broken(node, limits):
        raise error
        yield

    outcome = ending(broken)
    assert outcome.outcome is Ending.ERROR
    assert type(error).__name__ in outcome.reason


@pytest.mark.parametrize(
    ("selection", "takes"),
    [
        (Selection("prolog"), True),
        (Selection("epilog"), False),
        (Selection("prolog", only=frozenset({"other"})), False),
        (Selection("prolog", only=frozenset({"sample"})), True),
        (Selection("prolog", skip=frozenset({"sample"})), False),
    ],
)
def test_selection(selection, takes):
    assert selection.takes(declare(quiet)) is takes


def found(*findings):
    return Outcome("c", Ending.FOUND, findings)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ((), Verdict.GO),
        ((Outcome("c", Ending.PASSED), Outcome("d", Ending.NOT_APPLICABLE)), Verdict.GO),
        ((found(info("s", "m")),), Verdict.GO),
        ((found(warn("s", "m")),), Verdict.DEGRADED),
        ((found(warn("s", "m")), Outcome("d", Ending.UNMEASURED)), Verdict.UNKNOWN),
        ((Outcome("d", Ending.ERROR),), Verdict.UNKNOWN),
        ((Outcome("d", Ending.TIMED_OUT),), Verdict.UNKNOWN),
        ((found(fail("s", "m")), Outcome("d", Ending.ERROR)), Verdict.NO_GO),
    ],
)
def test_verdicts(outcomes, verdict):
    assert verdict_of(outcomes) is verdict


def test_a_refused_configuration_is_never_more_than_unknown():
    assert verdict_of((found(fail("s", "m")),), refused=True) is Verdict.UNKNOWN
    assert verdict_of((), refused=True) is Verdict.UNKNOWN


def test_exit_codes_are_those_documented():
    assert [v.exit_code for v in Verdict] == [0, 1, 2, 3]
