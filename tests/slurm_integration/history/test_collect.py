"""Collecting: nothing lost, nothing doubled, one at a time."""

import msgspec
import pytest

from healthcheck.node_event import NodeEvent
from slurm_integration.history import collect as module
from slurm_integration.history.collect import (
    MAX_GROUPS,
    OVERLAP_S,
    Collector,
    groups,
)
from slurm_integration.history.export import Export
from slurm_integration.history.lock import Busy, only_one
from slurm_integration.history.slurm_signs import (
    excluded_events,
    held_events,
    parse_excluded,
    untold,
)
from slurm_integration.history.store_rows import NodeRow
from slurm_integration.node_state import NodeState
from slurm_integration.sweep.model import Answer, NodeResult
from slurm_integration.sweep.transports.base import Errand

NOW = 1_790_000_000.0


def event(number, at=NOW - 10, node="node01"):
    return NodeEvent(f"{number:032x}", at, node, "xid", code=79)


class Nodes:
    """Nodes that answer with what they hold, as the sweep would carry it."""

    def __init__(self, **logs):
        self.logs = logs
        self.asked = []
        self.clock = NOW

    def __call__(self, names, errand, show, keep):
        self.asked.append((errand.since, tuple(names)))
        for name in names:
            log = self.logs.get(name)
            if log is None:
                show(NodeResult(name, "ssh", Answer.UNREACHABLE, detail="no route to host"))
                continue
            if isinstance(log, bytes):
                keep(name, log)
            else:
                new = tuple(e for e in log if e.at >= errand.since)
                keep(name, msgspec.json.encode(Export(1, self.clock, new, "h100-sxm")))
            show(NodeResult(name, "ssh", Answer.REPORTED))
        return False


def collect(store, nodes, *names, now=NOW):
    return Collector(store, lambda: now).run(names, nodes, Errand())


def test_what_is_new_is_fetched_once(store):
    nodes = Nodes(node01=[event(1)])
    first = collect(store, nodes, "node01")
    assert (first.new, first.answers, first.failed) == (1, {"reported": 1}, ())
    nodes.logs["node01"].append(event(2, NOW + 50))
    nodes.clock = NOW + 60
    second = collect(store, nodes, "node01", now=NOW + 60)
    assert (second.new, second.events) == (1, 2)  # one came twice, inside the overlap
    assert nodes.asked == [(0.0, ("node01",)), (NOW - OVERLAP_S, ("node01",))]
    row = store.nodes()["node01"]
    assert (row.profile, row.first_at, row.last_at) == ("h100-sxm", NOW - 10, NOW + 60)


def test_a_node_that_does_not_answer_is_asked_from_there_again(store):
    nodes = Nodes(node01=[event(1)])
    summary = collect(store, nodes, "node01", "node02")
    assert summary.failed == (("node02", "unreachable: no route to host"),)
    assert summary.answers == {"reported": 1, "unreachable": 1}
    row = store.nodes()["node02"]
    assert (row.asked_from, row.answer, row.last_at) == (0.0, "unreachable", None)


def test_garbage_harms_no_other_node(store):
    nodes = Nodes(node01=b'{"form": 1, "now": "soon"}', node02=[event(2, node="node02")])
    summary = collect(store, nodes, "node01", "node02")
    assert summary.answers == {"garbage": 1, "reported": 1}
    assert summary.failed[0][1].startswith("garbage: expected events of form 1")
    assert len(store.events("node02")) == 1


def test_a_clock_that_is_ahead_skips_nothing_later(store):
    nodes = Nodes(node01=[])
    nodes.clock = NOW + 86_400
    collect(store, nodes, "node01")
    assert store.nodes()["node01"].asked_from == NOW - OVERLAP_S


def test_a_log_that_dropped_events_is_told(store):
    data = msgspec.json.encode(Export(1, NOW, (event(1),), lost=True, broken=3))
    summary = collect(store, Nodes(node01=data), "node01")
    assert (summary.lost, summary.broken) == (("node01",), 3)
    assert store.nodes()["node01"].lost == 1


def test_an_interruption_ends_the_asking(store):
    class Interrupted(Nodes):
        def __call__(self, *arguments):
            super().__call__(*arguments)
            return True

    nodes = Interrupted(node01=[event(1)], node02=[])
    store.note(NodeRow("node02", asked_from=NOW))
    summary = collect(store, nodes, "node01", "node02")
    assert summary.interrupted
    assert len(nodes.asked) == 1
    assert len(store.events("node01")) == 1


def test_nodes_of_about_the_same_time_are_asked_together():
    known = {f"n{i}": NodeRow(f"n{i}", asked_from=NOW + i) for i in range(100)}
    known["late"] = NodeRow("late", asked_from=NOW - 86_400)
    found = groups([*known, "new"], known)
    assert [(since, len(names)) for since, names in found] == [
        (0.0, 1), (NOW - 86_400, 1), (NOW, 100),
    ]  # fmt: skip


def test_there_are_few_groups():
    known = {f"n{i}": NodeRow(f"n{i}", asked_from=NOW + i * 3600) for i in range(500)}
    found = groups(list(known), known)
    assert len(found) == MAX_GROUPS
    assert sum(len(names) for _, names in found) == 500
    assert all(known[name].asked_from >= since for since, names in found for name in names)


def test_only_one_collect_runs(tmp_path):
    path = str(tmp_path / "collect.lock")
    with only_one(path), pytest.raises(Busy), only_one(path):
        pass
    with only_one(path):
        pass


def test_the_question_is_the_nodes_own_command():
    argv = module.HistoryErrand(since=12.5).arguments("health")
    assert argv == ["history", "--export-since", "12.500"]


class TestSlurmsOwnWords:
    def test_jobs_that_exclude_nodes(self):
        text = "7|1000|node[01-02]\n8|1001|\n9|1002|(null)\nx|1|n1\n10|x|n1\n\n11|5|node[1-999]\n"
        assert [tuple(one) for one in parse_excluded(text)] == [
            (7, 1000, "node01"),
            (7, 1000, "node02"),
        ]

    @pytest.mark.parametrize("odd", ["7|1|node[", "7|1|node[1-", "7|1|" + "n" * 99999, "9" * 99])
    def test_odd_lines_are_skipped(self, odd):
        assert [len(one.node) <= 255 for one in parse_excluded(odd)] in ([], [True])

    def test_a_job_is_told_once_however_often_it_is_seen(self):
        avoided = list(parse_excluded("7|1000|node01"))
        first, later = excluded_events(avoided, NOW), excluded_events(avoided, NOW + 600)
        assert [e.id for e in first] == [e.id for e in later]

    def held(self, name, reason, at=int(NOW)):
        return NodeState(name, "IDLE", ("DRAIN",), reason=reason, reason_time=at)

    def test_drains_of_others_and_ours_are_told_apart(self):
        nodes = [
            self.held("a", "bad fan"),
            self.held("b", "flightcheck: no-go gpu-count: 7 of 8"),
            NodeState("c", "IDLE"),
        ]
        told = list(held_events(nodes, NOW))
        assert [(e.node, e.outcome) for e in told] == [("a", "by-others"), ("b", "drained")]
        assert [e.id for e in held_events(nodes, NOW + 1)] == [e.id for e in told]

    def test_a_drain_that_the_node_told_is_not_told_again(self):
        told = list(held_events([self.held("a", "flightcheck: x"), self.held("b", "y")], NOW))
        own = [NodeEvent("0" * 32, NOW + 3, "a", "drain", outcome="drained")]
        assert [e.node for e in untold(told, own)] == ["b"]
