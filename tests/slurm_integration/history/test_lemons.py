"""Signals, the ranking and the statistics: pure."""

import math

import pytest

from healthcheck.node_event import NodeEvent, job_failures
from slurm_integration.history.lemons import Signals, days_watched, rank, signals
from slurm_integration.history.rates import at_least, combined, gamma_p, gamma_q, mtbf
from slurm_integration.history.reliability import reliability
from slurm_integration.history.signals import signal_of
from slurm_integration.history.store_rows import NodeRow, Tally

DAY = 86_400.0
NOW = 1_790_000_000.0
SINCE = NOW - 30 * DAY


def event(kind, **fields):
    return NodeEvent("0" * 32, NOW, "node01", kind, **fields)


@pytest.mark.parametrize(
    ("told", "signal"),
    [
        (event("xid", code=79), "xid"),
        (event("xid", code=999), "xid"),
        (event("xid", code=13), None),
        (event("xid", code=31), None),
        (event("xid", code=43), None),
        (event("xid", code=45), None),
        (event("drain", outcome="drained"), "drain"),
        (event("drain", outcome="by-others"), "drain"),
        (event("drain", outcome="over-budget"), None),
        (event("drain", outcome="already-ours"), None),
        (event("link-downed"), "link"),
        (event("excluded", uid=1000), "excluded:1000"),
        (event("finding", check="gpu-ecc", severity="fail"), "check:gpu-ecc"),
        (event("finding", check="gpu-ecc", severity="warn"), None),
        (event("verdict", verdict="no-go"), None),
        (event("job-failure", klass="hardware/gpu-lost", root=True, nodes=8),
         "job:multi:hardware/gpu-lost"),
        (event("job-failure", klass="network/ib-link", root=True, nodes=1),
         "job:single:network/ib-link"),
        (event("job-failure", klass="hardware/gpu-lost", root=False, nodes=8), None),
        (event("job-failure", klass="user/cuda-oom", root=True, nodes=1), None),
        (event("something-of-a-later-release"), None),
    ],
)  # fmt: skip
def test_what_an_event_says_about_its_node(told, signal):
    assert signal_of(told) == signal


def test_a_failed_job_is_held_against_the_node_that_began_it():
    (told,) = job_failures("node01", 7, "hardware/gpu-lost", ["node02"], at=NOW, nodes=4)
    assert (told.node, signal_of(told)) == ("node02", "job:multi:hardware/gpu-lost")


class TestRates:
    @pytest.mark.parametrize(
        ("failures", "low", "high"),
        # Garwood's limits of a Poisson mean: 0.0253-5.572 for 1, 4.795-18.391 for 10.
        [(1, 1 / 5.57164, 1 / 0.0253178), (10, 1 / 18.3904, 1 / 4.79539)],
    )
    def test_limits_are_the_exact_ones(self, failures, low, high):
        found = mtbf(failures, 1.0)
        assert found.mean == pytest.approx(1 / failures)
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-4)

    def test_without_a_failure_only_the_lower_limit_is_known(self):
        found = mtbf(0, 3689.0)
        assert (found.mean, found.high) == (None, None)
        assert found.low == pytest.approx(1000, rel=1e-3)

    def test_nothing_watched_says_nothing(self):
        assert mtbf(0, 0.0).low is None

    def test_many_failures_have_narrow_limits(self):
        found = mtbf(1_000_000, 1e6)
        assert found.low == pytest.approx(1, abs=0.003)
        assert found.high == pytest.approx(1, abs=0.003)

    @pytest.mark.parametrize("count", [1, 2, 5, 40])
    @pytest.mark.parametrize("mean", [0.01, 0.5, 3.0, 60.0])
    def test_the_tail_is_that_of_poisson(self, count, mean):
        below = sum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count))
        assert at_least(count, mean) == pytest.approx(1 - below, abs=1e-12)

    def test_small_tails_are_not_lost_to_rounding(self):
        assert at_least(20, 0.1) == pytest.approx(0.1**20 / math.factorial(20), rel=0.15)
        assert gamma_q(5, 200.0) > 0

    def test_both_halves_are_one(self):
        for a, x in ((1, 0.5), (1, 3.0), (7.5, 2.0), (7.5, 30.0), (1e5, 1e5)):
            assert gamma_p(a, x) + gamma_q(a, x) == pytest.approx(1)

    def test_one_chance_alone_stays_what_it_is(self):
        assert combined([0.03]) == pytest.approx(0.03)
        assert combined([]) == 1.0
        assert combined([1.0, 1.0]) == pytest.approx(1.0)


def fleet(count=100, days=30.0, **odd):
    """Nodes with one failed job in ten, and those given by name."""
    nodes = {
        f"node{n:03d}": Signals(f"node{n:03d}", days, single=int(n % 10 == 0), xid=int(n % 10 == 5))
        for n in range(count)
    }
    return list({**nodes, **odd}.values())


class TestRanking:
    LEMON = Signals("node042", 30.0, excluded=3, xid=6, out=4, multi=5, single=2)

    def test_a_lemon_is_found_and_explained(self):
        ranking = rank(fleet(node042=self.LEMON), 5, SINCE, NOW)
        worst = ranking.worst[0]
        assert (worst.signals.node, worst.lemon, ranking.lemons) == ("node042", True, 1)
        assert any("multi-node jobs failed here: 5" in text for text in worst.why)

    def test_ordinary_bad_luck_makes_no_lemon(self):
        assert rank(fleet(), 5, SINCE, NOW).lemons == 0

    def test_one_failure_in_a_quiet_fleet_makes_no_lemon(self):
        quiet = [Signals(f"n{n}", 30.0) for n in range(1000)]
        quiet[7] = Signals("n7", 30.0, multi=1)
        ranking = rank(quiet, 5, SINCE, NOW)
        assert ranking.lemons == 0
        assert [one.signals.node for one in ranking.worst] == ["n7"]

    def test_two_nodes_accuse_nobody(self):
        pair = [Signals("a", 30.0, single=2), Signals("b", 30.0)]
        assert rank(pair, 5, SINCE, NOW).lemons == 0

    def test_a_maintenance_of_all_nodes_accuses_nobody(self):
        down = [Signals(f"n{n}", 30.0, out=3) for n in range(50)]
        assert rank(down, 5, SINCE, NOW).lemons == 0

    def test_a_node_that_was_watched_longer_is_not_worse_for_it(self):
        mixed = [Signals(f"n{n}", 3.0, single=0) for n in range(50)]
        mixed += [Signals(f"old{n}", 300.0, single=2) for n in range(50)]
        assert rank(mixed, 5, SINCE, NOW).lemons == 0

    def test_alike_fleets_rarely_accuse_a_node(self):
        import random

        draw = random.Random(7)
        accused = 0
        for _ in range(60):
            nodes = [
                Signals(f"n{n}", 30.0, **{
                    name: sum(draw.random() < 0.02 for _ in range(30))
                    for name in ("xid", "out", "multi", "single")
                })
                for n in range(50)
            ]  # fmt: skip
            accused += rank(nodes, 5, SINCE, NOW).lemons
        assert accused <= 3  # 0.01 a fleet is expected

    def test_the_share_of_the_worst_is_told(self):
        ranking = rank(fleet(node042=self.LEMON), 1, SINCE, NOW)
        assert (ranking.failures, ranking.top_failures) == (17, 7)
        assert ranking.share == pytest.approx(7 / 17)

    def test_without_failures_there_is_no_share(self):
        assert rank([Signals("a", 1.0)], 5, SINCE, NOW).share is None
        assert rank([], 5, SINCE, NOW).worst == ()


class TestSignalsOfTallies:
    def test_users_are_counted_not_their_jobs(self):
        told = [Tally("a", "excluded:1000", 500, 3), Tally("a", "excluded:1001", 1, 1)]
        assert signals(told, {}, SINCE, NOW)[0].excluded == 2

    def test_days_with_xids_are_counted_not_lines(self):
        assert signals([Tally("a", "xid", 900, 2)], {}, SINCE, NOW)[0].xid == 2

    def test_classes_of_failed_jobs_add_up(self):
        told = [
            Tally("a", "job:multi:hardware/gpu-lost", 2, 1),
            Tally("a", "job:multi:network/ib-link", 1, 1),
            Tally("a", "job:single:hardware/gpu-lost", 4, 1),
        ]
        (one,) = signals(told, {}, SINCE, NOW)
        assert (one.multi, one.single, one.failures) == (3, 4, 7)

    def test_nodes_without_events_belong_to_the_fleet(self):
        rows = {"a": NodeRow("a", "h100-sxm", SINCE, NOW), "b": NodeRow("b")}
        found = signals([Tally("c", "drain", 1, 1)], rows, SINCE, NOW)
        assert [one.node for one in found] == ["a", "b", "c"]
        assert found[0].profile == "h100-sxm"

    def test_a_new_node_was_watched_since_it_is_known(self):
        assert days_watched(NodeRow("a", first_at=NOW - 3 * DAY, last_at=NOW), SINCE, NOW) == 3
        assert days_watched(NodeRow("a", first_at=0, last_at=NOW - 10 * DAY), SINCE, NOW) == 20
        assert days_watched(None, SINCE, NOW) == 30
        assert days_watched(NodeRow("a", first_at=NOW, last_at=NOW), SINCE, NOW) == 1


class TestReliability:
    ROWS = {
        "a": NodeRow("a", "h100-sxm", SINCE, NOW),
        "b": NodeRow("b", "h100-sxm", SINCE, NOW),
        "c": NodeRow("c", "a100-pcie", SINCE, NOW),
    }
    TOLD = [
        Tally("a", "job:multi:hardware/gpu-lost", 3, 2),
        Tally("b", "job:single:hardware/gpu-lost", 1, 1),
        Tally("b", "check:gpu-ecc", 2, 1),
        Tally("c", "drain", 5, 1),
        Tally("gone", "xid", 1, 1),
    ]

    def test_classes_and_types_stand_apart(self):
        found = reliability(self.TOLD, self.ROWS, SINCE, NOW, failed_jobs=9)
        told = [(one.profile, one.klass, one.mtbf.failures, one.nodes) for one in found.lines]
        assert told == [
            ("a100-pcie", "all jobs", 0, 0),
            ("h100-sxm", "all jobs", 4, 2),
            ("h100-sxm", "job hardware/gpu-lost", 4, 2),
            ("h100-sxm", "check gpu-ecc", 2, 1),
            ("unknown", "all jobs", 0, 0),
        ]
        assert found.lines[1].mtbf.mean == pytest.approx(2 * 30 * 24 / 4)
        assert (found.failed_jobs, found.days) == (9, 30)
        assert [(one.profile, one.nodes) for one in found.types] == [
            ("a100-pcie", 1), ("h100-sxm", 2), ("unknown", 1),
        ]  # fmt: skip

    def test_an_empty_history_has_no_lines(self):
        assert reliability([], {}, SINCE, NOW).lines == ()
