"""What is done to nodes and jobs, and above all what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epilog.attribute import attribute
from epilog.classes import classes
from epilog.decide import Policy, RequeuePolicy, Suspicion, decide, may_requeue
from epilog.model import Attribution, Drain, Evidence, JobFacts, Role, Root

JOB = JobFacts(job_id=7, uid=1000, nodes=("gpu01", "gpu02", "gpu03", "gpu04"))
REQUEUE = Policy(requeue=RequeuePolicy(enabled=True, most=2))


def fact(node: str = "gpu01", klass: str = "hardware/gpu-off-bus") -> Evidence:
    return Evidence("kernel", 1, Role.ROOT, klass, "Xid 79", host=node, fact=True)


def text(node: str = "gpu01", klass: str = "hardware/gpu-off-bus") -> Evidence:
    return Evidence("job.log", 1, Role.ROOT, klass, "NVRM: Xid 79", host=node)


def test_a_fact_of_the_node_drains_it_and_requeues_the_job() -> None:
    done = decide(attribute(JOB, [fact()]), JOB, policy=REQUEUE)
    assert done.drain == ("gpu01",)
    assert done.requeue
    assert done.proven_hardware
    assert not done.suspicions


def test_the_same_words_in_a_log_only_raise_a_suspicion() -> None:
    done = decide(attribute(JOB, [text()]), JOB, policy=REQUEUE, now=100.0)
    assert done.drain == done.diagnose == ()
    assert not done.requeue
    assert [(s.node, s.job_id, s.uid, s.at) for s in done.suspicions] == [("gpu01", 7, 1000, 100.0)]


def test_an_attribution_that_claims_a_drain_without_a_fact_is_not_believed() -> None:
    claimed = Attribution(
        "hardware/gpu-off-bus", 0.9, Root(nodes=("gpu01",)), Drain.YES, "", evidence=(text(),)
    )
    assert decide(claimed, JOB).drain == ()


def test_a_fact_of_another_node_is_no_fact_of_this_one() -> None:
    claimed = Attribution(
        "hardware/gpu-off-bus",
        0.9,
        Root(nodes=("gpu01",)),
        Drain.YES,
        "",
        evidence=(fact("gpu02"),),
    )
    assert decide(claimed, JOB).drain == ()


@pytest.mark.parametrize("klass", sorted(classes()))
def test_text_of_any_class_never_drains_nor_requeues(klass: str) -> None:
    for remembered in ((), (Suspicion("gpu01", klass, 7, 1000, 90.0),)):
        done = decide(attribute(JOB, [text(klass=klass)]), JOB, remembered, REQUEUE, now=100.0)
        assert done.drain == done.diagnose == ()
        assert not done.requeue


lines = st.builds(
    Evidence,
    file=st.just("job.log"),
    line=st.integers(1, 50),
    role=st.sampled_from(Role),
    klass=st.sampled_from(sorted(classes())),
    text=st.sampled_from(["NVRM: Xid", "what(): CUDA error", "Traceback"]),
    rank=st.none() | st.integers(0, 7),
    host=st.none() | st.sampled_from(["gpu01", "gpu02", "elsewhere", "10.0.0.9"]),
    at=st.none() | st.floats(0, 1e9),
    fields=st.sampled_from(
        [{}, {"peer": "gpu02"}, {"culprits": "1, 2"}, {"absent": "3"}, {"exitcode": "-9"}]
    ),
)


@given(st.lists(lines, max_size=12))
def test_no_text_whatever_drains(evidence: list[Evidence]) -> None:
    found = attribute(JOB, evidence)
    assert found.drain is not Drain.YES
    assert 0.0 <= found.confidence <= 1.0
    done = decide(found, JOB, policy=REQUEUE, now=100.0)
    assert done.drain == done.diagnose == ()
    assert not done.requeue
    assert {s.node for s in done.suspicions} <= set(JOB.nodes)


def test_two_unrelated_jobs_and_users_drain_for_diagnosis() -> None:
    before = (Suspicion("gpu01", "hardware/gpu-ecc", 6, 1001, 50.0),)
    done = decide(attribute(JOB, [text()]), JOB, before, now=100.0)
    assert done.diagnose == ("gpu01",)
    assert done.drain == ()
    assert any("6 (user 1001)" in why and "7 (user 1000)" in why for why in done.why)


@pytest.mark.parametrize(
    "before",
    [
        Suspicion("gpu01", "hardware/gpu-ecc", 6, 1000, 50.0),  # the same user
        Suspicion("gpu01", "hardware/gpu-ecc", 7, 1001, 50.0),  # the same job
        Suspicion("gpu02", "hardware/gpu-ecc", 6, 1001, 50.0),  # another node
        Suspicion("gpu01", "hardware/gpu-ecc", 6, 1001, -700_000.0),  # too long ago
        Suspicion("gpu01", "hardware/gpu-ecc", 6, 1001, 9e9),  # from the future
    ],
)
def test_anything_less_does_not(before: Suspicion) -> None:
    assert decide(attribute(JOB, [text()]), JOB, (before,), now=100.0).diagnose == ()


def test_one_user_cannot_drain_with_many_jobs() -> None:
    before = tuple(Suspicion("gpu01", "hardware/gpu-ecc", n, 1000, 50.0) for n in range(100, 200))
    assert decide(attribute(JOB, [text()]), JOB, before, now=100.0).diagnose == ()


def test_a_log_cannot_accuse_a_node_that_was_not_its_own() -> None:
    foreign = JobFacts(job_id=7, uid=1000)
    found = attribute(foreign, [text("gpu99")])
    assert found.root.nodes == ("gpu99",)
    assert decide(found, JOB, now=100.0).suspicions == ()


def test_the_same_fault_on_two_nodes_drains_neither() -> None:
    found = attribute(JOB, [fact("gpu01"), fact("gpu02")])
    assert found.drain is Drain.REVIEW
    assert decide(found, JOB).drain == ()


def test_links_of_two_nodes_alert_for_the_fabric() -> None:
    links = [fact("gpu01", "network/ib-link"), fact("gpu02", "network/ib-link")]
    done = decide(attribute(JOB, links), JOB)
    assert done.drain == ()
    assert "fabric" in done.alert


def test_a_site_may_forbid_drains() -> None:
    done = decide(attribute(JOB, [fact()]), JOB, policy=Policy(drain=False))
    assert done.drain == ()
    assert any("configuration" in why for why in done.why)


@pytest.mark.parametrize(
    ("klass", "proven", "restarts", "policy", "again"),
    [
        ("hardware/gpu-ecc", True, 0, RequeuePolicy(enabled=True), True),
        ("hardware/gpu-ecc", True, 1, RequeuePolicy(enabled=True), True),
        ("hardware/gpu-ecc", True, 2, RequeuePolicy(enabled=True), False),
        ("hardware/gpu-ecc", True, 0, RequeuePolicy(), False),
        ("hardware/gpu-ecc", False, 0, RequeuePolicy(enabled=True), False),
        ("hardware/gpu-ecc", True, 0, RequeuePolicy(enabled=True, mode="expedite"), False),
        ("network/ib-link", True, 0, RequeuePolicy(enabled=True), True),
        ("scheduler/time-limit", True, 0, RequeuePolicy(enabled=True), False),
        ("scheduler/cancelled", True, 0, RequeuePolicy(enabled=True), False),
        ("user/nan", True, 0, RequeuePolicy(enabled=True), False),
        ("user/cuda-oom", True, 0, RequeuePolicy(enabled=True), False),
        ("unknown/nccl-timeout", True, 0, RequeuePolicy(enabled=True), False),
        ("infrastructure/driver", True, 0, RequeuePolicy(enabled=True), False),
    ],
)
def test_only_proven_hardware_runs_again_and_only_so_often(
    klass: str, proven: bool, restarts: int, policy: RequeuePolicy, again: bool
) -> None:
    found = Attribution(klass, 0.9, Root(), Drain.YES, "")
    facts = JobFacts(job_id=7, uid=1000, restart_count=restarts)
    decided, why = may_requeue(found, facts, proven, policy)
    assert decided is again
    assert why
