import heapq
import random

import pytest

from slurm_integration.budget import (
    CLAIM_LIFE_S,
    CROWD,
    SETTLE_S,
    Budget,
    Claim,
    count_seats,
    read_claim,
    with_claim,
    without_claim,
)
from slurm_integration.node_state import NodeState

NOW = 1_800_000_000
WIDE = Budget(max_nodes=2, max_percent=100, max_held_percent=100, window_s=3600)


def ours(name: str, age_s: int = 0, comment: str = "") -> NodeState:
    return NodeState(
        name, "IDLE", ("DRAIN",), reason="flightcheck: x", reason_time=NOW - age_s, comment=comment
    )


def idle(count: int) -> list[NodeState]:
    return [NodeState(f"i{n}", "IDLE") for n in range(count)]


def claiming(name: str, ticket: int, age_s: int = 0) -> NodeState:
    return NodeState(name, "ALLOCATED", comment=with_claim("", Claim(ticket, NOW - age_s)))


@pytest.mark.parametrize(
    ("nodes", "max_nodes", "percent", "held", "limits"),
    [
        (1000, 4, 5.0, 20.0, (4, 200)),
        (1000, 100, 5.0, 20.0, (50, 200)),
        (4, 4, 5.0, 20.0, (1, 1)),
        (1, 4, 5.0, 20.0, (1, 1)),
        (10, 0, 100.0, 100.0, (0, 10)),
        (10_000, 100_000, 100.0, 100.0, (10_000, 10_000)),
    ],
)
def test_limits(nodes, max_nodes, percent, held, limits):
    seats = count_seats(idle(nodes), "i0", Budget(max_nodes, percent, held, 3600), NOW)
    assert (seats.recent_limit, seats.held_limit) == limits
    assert seats.left == min(limits)


def test_future_nodes_give_no_share():
    nodes = [*idle(10), *(NodeState(f"f{n}", "FUTURE") for n in range(90))]
    seats = count_seats(nodes, "i0", Budget(100, 10.0, 100.0, 3600), NOW)
    assert seats.recent_limit == 1


def test_old_drains_leave_the_window_but_stay_held():
    nodes = [ours("a", 10), ours("b", 3899), ours("c", 3901), ours("d", 10**6), *idle(6)]
    seats = count_seats(nodes, "i0", WIDE, NOW)
    assert (seats.recent, seats.held) == (2, 4)


def test_held_limit_stops_a_slow_rule_too():
    nodes = [*(ours(f"o{n}", 10**6) for n in range(20)), *idle(80)]
    assert count_seats(nodes, "i0", Budget(4, 5.0, 20.0, 3600), NOW).left == 0
    assert count_seats(nodes[1:], "i0", Budget(4, 5.0, 30.0, 3600), NOW).left == 4


def test_foreign_drains_take_no_seat():
    foreign = NodeState("f", "IDLE", ("DRAIN",), reason="bad DIMM", reason_time=NOW)
    assert count_seats([foreign, *idle(3)], "i0", WIDE, NOW).left == 2


def test_a_drain_by_exit_code_with_its_claim_takes_a_seat():
    node = NodeState(
        "p",
        "IDLE",
        ("DRAIN",),
        reason="Prolog error",
        reason_time=NOW,
        comment=with_claim("", Claim(1, NOW - 3000)),
    )
    assert count_seats([node, *idle(3)], "i0", WIDE, NOW).left == 1


def test_a_drain_without_a_time_counts_as_recent():
    node = NodeState("p", "IDLE", ("DRAIN",), reason="flightcheck: x")
    assert count_seats([node, *idle(3)], "i0", WIDE, NOW).recent == 1


def test_claims_are_ordered_by_ticket_then_name():
    nodes = [claiming("a", 2), claiming("b", 1), claiming("z", 1), claiming("m", 1)]
    seats = count_seats(nodes, "m", WIDE, NOW, Claim(1, NOW))
    assert seats.ahead == 1
    assert seats.next_ticket == 3


def test_dead_claims_are_not_counted():
    nodes = [claiming("a", 1, CLAIM_LIFE_S + 1), claiming("b", 1, -CLAIM_LIFE_S - 1), *idle(2)]
    seats = count_seats(nodes, "i0", WIDE, NOW)
    assert (seats.ahead, seats.next_ticket) == (0, 1)


def test_a_crowd_is_sent_away_without_a_claim():
    few = [claiming(f"c{n}", 1) for n in range(2 + CROWD - 1)]
    assert not count_seats([*few, *idle(1)], "i0", WIDE, NOW).hopeless
    assert count_seats([*few, claiming("d", 1), *idle(1)], "i0", WIDE, NOW).hopeless


@pytest.mark.parametrize("comment", ["", "rack 7", "a = b [c]", " lead", "two\nlines"])
def test_the_sites_comment_comes_back_as_it_was(comment):
    claimed = with_claim(comment, Claim(3, NOW))
    assert read_claim(claimed) == Claim(3, NOW)
    assert without_claim(with_claim(claimed, Claim(4, NOW))).strip() == comment.strip()


@pytest.mark.parametrize(
    "comment",
    ["", "flightcheck-claim", "[flightcheck-claim ]", "[flightcheck-claim -1 x]", "[claim 1 2]"],
)
def test_no_claim(comment):
    assert read_claim(comment) is None


class Race:
    """The protocol on a clock of its own, with any delays: who drains in the end?

    Each call takes a while, and the controller acts somewhere within it.
    """

    def __init__(self, seed: int, contenders: int, budget: Budget, slow: float) -> None:
        self.rng = random.Random(seed)
        self.budget = budget
        self.slow = slow
        self.names = [f"n{i:02d}" for i in range(contenders)]
        self.nodes = {name: NodeState(name, "ALLOCATED") for name in self.names}
        self.most = 0

    def call(self) -> tuple[float, float]:
        first = self.rng.expovariate(1 / self.slow)
        return first, first + self.rng.expovariate(1 / self.slow)

    def run(self) -> dict[str, str]:
        results: dict[str, str] = {}
        queue: list[tuple[float, int, str, object]] = []
        for number, name in enumerate(self.names):
            start = self.rng.choice([0.0, self.rng.uniform(0, 4)])
            heapq.heappush(queue, (start, number, name, self.contend(name, results)))
        serial = len(queue)
        while queue:
            at, _, name, steps = heapq.heappop(queue)
            pause = steps.send(None)  # type: ignore[attr-defined]
            if pause is not None:
                heapq.heappush(queue, (at + pause, serial, name, steps))
                serial += 1
            drained = sum(node.ours for node in self.nodes.values())
            self.most = max(self.most, drained)
        return results

    def contend(self, me, results):
        while True:
            acts, ends = self.call()
            yield acts
            seats = count_seats(list(self.nodes.values()), me, self.budget, NOW)
            spent = ends
            yield ends - acts
            if seats.hopeless:
                self.write(me, comment="")
                break
            acts, ends = self.call()
            claim = Claim(seats.next_ticket, NOW)
            yield acts
            self.write(me, comment=with_claim("", claim))
            yield ends - acts
            if spent + ends > SETTLE_S:
                continue
            acts, ends = self.call()
            yield SETTLE_S + acts
            seats = count_seats(list(self.nodes.values()), me, self.budget, NOW, claim)
            yield ends - acts
            if seats.free < 1:
                yield self.call()[0]
                self.write(me, comment="")
                break
            yield self.call()[0]
            self.nodes[me] = ours(me)
            results[me] = "drained"
            yield None
        results.setdefault(me, "over-budget")
        while True:
            yield None

    def write(self, name: str, comment: str) -> None:
        self.nodes[name] = NodeState(name, "ALLOCATED", comment=comment)


@pytest.mark.parametrize("slow", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("contenders", [2, 3, 8, 40])
def test_never_more_than_the_budget_whatever_the_delays(contenders, slow):
    for seed in range(60):
        limit = 1 + seed % 3
        race = Race(seed, contenders, Budget(limit, 100, 100, 3600), slow)
        results = race.run()
        assert len(results) == contenders
        assert race.most <= limit


def test_the_whole_budget_is_used_where_slurm_answers_in_time():
    for seed in range(200):
        race = Race(seed, 12, Budget(2, 100, 100, 3600), 0.02)
        assert sorted(race.run().values()).count("drained") == 2
