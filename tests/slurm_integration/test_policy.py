"""Verdict × stage → what is done."""

import pytest

from healthcheck.config import CheckSettings, Config
from healthcheck.model import Ending, Outcome, Report, fail, verdict_of, warn
from slurm_integration.policy import REQUEUE_LIMIT, Do, decide


def report(*outcomes, refused=False):
    verdict = verdict_of(outcomes, refused=refused)
    return Report(verdict, "n1", "p", "prolog", 0.1, outcomes)


def found(check, *findings):
    return Outcome(check, Ending.FOUND, findings)


FAILED = found("gpu-count", fail("node", "7 of 8"))
BLIND = Outcome("xid", Ending.UNMEASURED, reason="no permission")


def test_a_healthy_node_passes():
    assert decide(report(Outcome("a", Ending.PASSED)), Config()).do is Do.PASS


def test_a_degraded_node_alerts_and_the_job_runs():
    decision = decide(report(found("t", warn("g", "warm"))), Config())
    assert decision.do is Do.ALERT
    assert [check for check, _ in decision.findings] == ["t"]


def test_a_failing_node_is_drained():
    assert decide(report(FAILED), Config()).do is Do.DRAIN


@pytest.mark.parametrize("restarts", [0, REQUEUE_LIMIT])
def test_an_unknown_node_never_drains_and_the_job_runs_by_default(restarts):
    assert decide(report(BLIND), Config(), restarts).do is Do.ALERT


def test_on_unknown_can_send_the_job_elsewhere_but_not_for_ever():
    config = Config(on_unknown="requeue")
    assert decide(report(BLIND), config, 0).do is Do.REQUEUE
    assert decide(report(BLIND), config, REQUEUE_LIMIT).do is Do.ALERT


def test_a_refused_configuration_never_drains():
    assert decide(report(FAILED, refused=True), Config()).do is Do.ALERT


@pytest.mark.parametrize("action", ["drain", "requeue", "alert", "pass"])
def test_the_site_says_what_a_failing_check_does(action):
    config = Config(checks={"gpu-count": CheckSettings(action=action)})
    assert decide(report(FAILED), config).do is Do(action)


def test_the_strongest_wish_decides_and_its_finding_leads_the_reason():
    config = Config(checks={"gpu-count": CheckSettings(action="alert")})
    other = found("nvlink-links", fail("g1", "link 3 down"))
    decision = decide(report(FAILED, other), config)
    assert decision.do is Do.DRAIN
    assert [check for check, _ in decision.findings] == ["nvlink-links", "gpu-count"]


def test_a_job_requeued_too_often_runs():
    config = Config(checks={"gpu-count": CheckSettings(action="requeue")})
    assert decide(report(FAILED), config, REQUEUE_LIMIT).do is Do.ALERT


def test_a_fault_of_the_fabric_sends_the_job_elsewhere_and_drains_nobody():
    no_manager = found("ib-ports", fail("fabric", "no subnet manager"))
    assert decide(report(no_manager), Config()).do is Do.REQUEUE
    assert decide(report(no_manager, FAILED), Config()).do is Do.DRAIN
