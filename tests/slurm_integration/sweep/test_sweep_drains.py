"""Many nodes drained at once, against the stand-in for scontrol."""

import time

import msgspec
import pytest

from healthcheck.config import CheckSettings, Config, DrainSettings
from slurm_integration.scontrol import Scontrol
from slurm_integration.sweep import drains
from slurm_integration.sweep.drains import Drainer, wishes

GPU = ("fail", "gpu-count", "0000:b3:00.0", "7 of 8 GPUs visible")


@pytest.fixture
def drain(fake, monkeypatch):
    # The protocol's wait is tested with budget.py; here it would only cost time.
    monkeypatch.setattr(drains, "SETTLE_S", 0.6)

    def run(results, *, dry_run=False, config=None, **limits):
        chosen = {"max_nodes": 99, "max_percent": 100, "max_held_percent": 100, **limits}
        config = config or Config(drain=DrainSettings(**chosen))
        wanted, told = wishes(results, config)
        done = Drainer(Scontrol(fake.program, 10), config, dry_run=dry_run).drain(wanted)
        return {(a.what, a.nodes): a.reason for a in (*told, *done)}

    return run


def test_alike_nodes_are_drained_in_one_update_with_a_folded_list(fake, make_result, drain):
    for name in fake.nodes:
        fake.set(name, state="IDLE")
    sick = [make_result(f"node{i:02d}", "no-go", GPU) for i in (1, 2, 3)]
    done = drain([*sick, make_result("node04")])
    reason = "flightcheck: no-go gpu-count: 0000:b3:00.0: 7 of 8 GPUs visible"
    assert done == {("drained", ("node01", "node02", "node03")): reason}
    assert fake.drained == dict.fromkeys(("node01", "node02", "node03"), reason)
    updates = [call for call in fake.calls if call.startswith("update")]
    assert len(updates) == 2
    assert all("NodeName=node[01-03]" in call for call in updates)
    assert not any("claim" in str(node.get("comment")) for node in fake.nodes.values())


def test_a_dry_run_says_it_and_writes_nothing(fake, make_result, drain):
    done = drain([make_result("node01", "no-go", GPU)], dry_run=True)
    assert list(done) == [("would-drain", ("node01",))]
    assert [call for call in fake.calls if call.startswith("update")] == []


def test_foreign_drains_and_our_own_are_left_as_they_are(fake, make_result, drain):
    fake.drain("node01", "bad DIMM", user="alice")
    fake.drain("node02", "flightcheck: no-go xid: Xid 79")
    before = fake.nodes
    done = drain([make_result(f"node0{i}", "no-go", GPU) for i in (1, 2)])
    assert set(done) == {("held-by-others", ("node01",)), ("held-by-us", ("node02",))}
    assert "bad DIMM" in done[("held-by-others", ("node01",))]
    assert fake.nodes == before


def test_the_budget_holds_however_many_fail(fake, make_result, drain):
    fake.drain("node08", "flightcheck: no-go xid: Xid 79", age_s=60)
    sick = [make_result(f"node0{i}", "no-go", GPU) for i in range(1, 7)]
    done = drain(sick, max_nodes=3)
    assert done.keys() == {
        ("drained", ("node01", "node02")),
        ("over-budget", ("node03",)),
        ("over-budget", ("node04",)),
        ("over-budget", ("node05",)),
        ("over-budget", ("node06",)),
    } or {what for what, _ in done} == {"drained", "over-budget"}
    assert len(fake.drained) == 3


def test_a_comment_of_the_site_survives(fake, make_result, drain):
    fake.set("node01", comment="rack 7, ticket 12")
    drain([make_result("node01", "no-go", GPU)])
    assert fake.nodes["node01"]["comment"] == "rack 7, ticket 12"
    assert "node01" in fake.drained


def test_claims_of_prologs_come_first(fake, make_result, drain):
    now = int(time.time())
    fake.set("node07", comment=f"[flightcheck-claim 1 {now}]")
    done = drain([make_result("node01", "no-go", GPU)], max_nodes=1)
    assert {what for what, _ in done} == {"over-budget"}
    assert fake.drained == {}


def test_only_no_go_nodes_are_drained(fake, make_result, drain):
    results = [
        make_result("node01", "degraded", ("warn", *GPU[1:])),
        make_result("node02", "unknown", GPU),
        make_result("node03", answer="unreachable", detail="dark"),
        make_result("node04", answer="garbage"),
    ]
    assert drain(results) == {}
    assert fake.calls == []


def test_policy_fabric_findings_and_other_names_are_told_and_not_drained(make_result):
    config = Config(checks={"gpu-count": CheckSettings(action="alert")})
    results = [
        make_result("node01", "no-go", GPU),
        make_result("node02", "no-go", ("fail", "ib-ports", "fabric", "no subnet manager")),
        make_result("node03", "no-go", ("fail", "xid", "x", "79"), detail="calls itself node99"),
    ]
    wanted, told = wishes(results, config)
    assert wanted == []
    assert [(action.what, action.nodes) for action in told] == [
        ("alert", ("node01",)), ("alert", ("node02",)), ("alert", ("node03",)),
    ]  # fmt: skip


def test_hardware_to_be_replaced_is_marked(make_result):
    result = make_result("node01", "no-go", GPU)
    result.report["outcomes"][0]["findings"][0]["action"] = "replace"
    ((wish,), _) = wishes([result], Config())
    assert wish.reason.endswith("[replace]")


@pytest.mark.parametrize("mood", [{"refuse": "update"}, {"refuse": "drain"}, {"garbage": "show"}])
def test_a_slurm_that_refuses_is_told_and_nothing_raises(fake, make_result, drain, mood):
    fake.mood(**mood)
    done = drain([make_result("node01", "no-go", GPU)])
    assert {what for what, _ in done} == {"failed"}
    assert fake.drained == {}


def test_a_wish_can_be_written_as_json(make_result):
    ((wish,), _) = wishes([make_result("node01", "no-go", GPU)], Config())
    assert msgspec.json.decode(msgspec.json.encode(wish))["node"] == "node01"
