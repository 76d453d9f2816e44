"""Schedule and conclusion on simulated clusters: a matrix of bandwidths in, a culprit out."""

from itertools import combinations

import pytest

from healthcheck.model import Verdict
from slurm_integration.allreduce_nodes.conclude import conclude, judge_with, reference
from slurm_integration.allreduce_nodes.model import Conclusion, Measured, Rule
from slurm_integration.allreduce_nodes.schedule import matching, next_round

FAST = 48.0


def names(count: int) -> tuple[str, ...]:
    return tuple(f"node{number:02d}" for number in range(1, count + 1))


class Cluster:
    """Nodes and links with a bandwidth, and some that break whatever they take part in."""

    def __init__(self, count: int, fast: float = FAST) -> None:
        self.nodes = names(count)
        self.node = dict.fromkeys(self.nodes, fast)
        self.link: dict[frozenset[str], float] = {}
        self.corrupt: set[str] = set()

    def slow_node(self, *those: str, factor: float = 0.3) -> "Cluster":
        for name in those:
            self.node[name] *= factor
        return self

    def slow_link(self, a: str, b: str, factor: float = 0.3) -> "Cluster":
        self.link[frozenset((a, b))] = FAST * factor
        return self

    def test(self, group: tuple[str, ...], turn: int, kind: str = "pair") -> Measured:
        bad = self.corrupt & {*group}
        if bad:
            return Measured(group, kind, turn, "corrupt", reason=f"{min(bad)}: wrong bits")
        links = [self.link.get(frozenset(pair), FAST * 9) for pair in combinations(group, 2)]
        figure = min(*(self.node[name] for name in group), *links)
        return Measured(group, kind, turn, "ok", figure * (1 + 0.01 * (len(group[0]) % 3)))


def localise(cluster: Cluster, rule: Rule = Rule()) -> tuple[Conclusion, list[Measured]]:
    """What the flight does, without a network."""
    tests = [cluster.test(cluster.nodes, 0, "whole")]
    for turn in range(1, 10):
        waves = next_round(cluster.nodes, tests, judge_with(tests, rule))
        if not waves:
            break
        for wave in waves:
            met = [name for group in wave for name in group]
            assert len(met) == len({*met}), "groups of one wave run at the same time"
            tests += [cluster.test(group, turn) for group in wave]
    else:
        pytest.fail("it never ends")
    return conclude(cluster.nodes, (), {}, tests, rule), tests


def pairs(tests: list[Measured]) -> list[Measured]:
    return [test for test in tests if test.kind == "pair"]


def rounds(tests: list[Measured]) -> int:
    return max(test.round for test in tests)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8, 15, 64])
@pytest.mark.parametrize("turn", [0, 1, 2, 5])
def test_a_matching_holds_every_node_once(count: int, turn: int) -> None:
    groups = matching(names(count), turn)
    assert sorted(name for group in groups for name in group) == sorted(names(count))
    assert sorted(len(group) for group in groups)[:-1] == [2] * (len(groups) - 1)
    assert len(groups) == count // 2


def test_matchings_of_four_nodes_let_everybody_meet_everybody() -> None:
    met = {frozenset(pair) for turn in range(3) for pair in matching(names(4), turn)}
    assert len(met) == 6


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 9, 16, 33])
def test_one_slow_node_is_found_in_two_rounds_wherever_it_is(count: int) -> None:
    for culprit in names(count):
        told, tests = localise(Cluster(count).slow_node(culprit))
        assert [fault.nodes for fault in told.faults] == [(culprit,)], told
        assert told.faults[0].words.startswith(f"{culprit} is slow with every partner: ")
        assert rounds(tests) == 2
        assert len(pairs(tests)) <= count // 2 + 2 + count % 2
        assert told.verdict is Verdict.NO_GO


def test_three_nodes_are_localised_too() -> None:
    for culprit in names(3):
        told, _ = localise(Cluster(3).slow_node(culprit))
        assert told.blamed() == (culprit,)
    told, _ = localise(Cluster(3).slow_link("node01", "node03"))
    assert [(fault.kind, fault.nodes) for fault in told.faults] == [("link", ("node01", "node03"))]


@pytest.mark.parametrize("count", [4, 5, 8, 9])
def test_a_slow_link_is_named_and_neither_of_its_nodes(count: int) -> None:
    for a, b in {pair for pair in matching(names(count), 0) if len(pair) == 2}:
        told, tests = localise(Cluster(count).slow_link(a, b))
        assert [(fault.kind, fault.nodes) for fault in told.faults] == [("link", (a, b))]
        assert told.faults[0].words.startswith(f"the link {a}–{b} is slow: 14.4 GB/s")
        assert rounds(tests) == 2
        assert told.blamed() == ()


def test_a_slow_link_within_the_triple_of_an_odd_count_is_found_in_a_third_round() -> None:
    triple = next(group for group in matching(names(5), 0) if len(group) == 3)
    for a, b in combinations(triple, 2):
        told, tests = localise(Cluster(5).slow_link(a, b))
        assert [(fault.kind, fault.nodes) for fault in told.faults] == [("link", (a, b))]
        assert rounds(tests) == 3


def test_any_two_slow_nodes_of_eight_are_found_in_two_rounds() -> None:
    for culprits in combinations(names(8), 2):
        told, tests = localise(Cluster(8).slow_node(*culprits))
        assert told.blamed() == culprits
        assert rounds(tests) == 2
        assert len(pairs(tests)) <= 8 // 2 + 2 * 2


def test_any_two_slow_nodes_of_four_are_found_where_a_figure_is_expected() -> None:
    for culprits in combinations(names(4), 2):
        told, _ = localise(Cluster(4).slow_node(*culprits), Rule(expected_gb_s=FAST))
        assert told.blamed() == culprits


def test_three_slow_nodes_in_three_of_four_pairs_do_not_pass_for_usual() -> None:
    culprits = tuple(sorted(pair[0] for pair in matching(names(8), 0)[:3]))
    told, tests = localise(Cluster(8).slow_node(*culprits))
    assert told.blamed() == culprits
    assert len(pairs(tests)) <= 8 // 2 + 2 * 3


def test_everything_slow_blames_no_node() -> None:
    told, tests = localise(Cluster(6, fast=10.0), Rule(expected_gb_s=FAST))
    assert told.blamed() == ()
    assert [fault.kind for fault in told.faults] == ["set"]
    assert "no single node is to blame" in told.faults[0].words
    assert told.verdict is Verdict.DEGRADED
    assert rounds(tests) <= 3


def test_without_an_expected_figure_a_shared_slowness_is_admitted_to_be_unseen() -> None:
    told, _ = localise(Cluster(6, fast=10.0))
    assert told.verdict is Verdict.GO
    assert "a fault which all of them share is not seen" in told.notes[0]


def test_a_healthy_cluster_is_go_after_one_round() -> None:
    told, tests = localise(Cluster(9), Rule(expected_gb_s=FAST))
    assert told == Conclusion(Verdict.GO, (), FAST, ())
    assert rounds(tests) == 1


def test_a_node_that_corrupts_is_named_with_how_it_fails() -> None:
    cluster = Cluster(6)
    cluster.corrupt = {"node04"}
    told, _ = localise(cluster)
    assert told.blamed() == ("node04",)
    assert told.faults[0].words.count("corrupt (node04: wrong bits)") == 2
    assert told.faults[0].words.startswith("node04 fails with every partner: node0")


def test_two_slow_nodes_cannot_be_told_from_their_link() -> None:
    told, tests = localise(Cluster(2).slow_node("node02"), Rule(expected_gb_s=FAST))
    assert told.blamed() == ()
    assert "two nodes cannot tell which, or the link" in told.faults[0].words
    assert len(pairs(tests)) == 1


def test_absent_lost_and_unable_nodes_are_named_without_a_test() -> None:
    tests = [
        Measured(("node01", "node02", "node03"), "whole", 0, "lost", lost=("node02",)),
        Measured(("node01", "node03"), "pair", 1, "ok", FAST),
    ]
    told = conclude(names(5), ("node04",), {"node05": "no-cuda: CUDA shows 0 GPUs"}, tests, Rule())
    assert [fault.words for fault in told.faults] == [
        "node04 did not show up",
        "node02 went away during a test",
        "node05: no-cuda: CUDA shows 0 GPUs",
    ]
    assert told.verdict is Verdict.NO_GO


def test_a_node_lost_in_a_pair_does_not_condemn_its_partner() -> None:
    nodes = names(4)
    first = [
        Measured(("node01", "node04"), "pair", 1, "lost", lost=("node04",)),
        Measured(("node02", "node03"), "pair", 1, "ok", FAST),
    ]
    waves = next_round(nodes, first, judge_with(first, Rule()))
    assert waves == ((("node01", "node02"),),)
    tests = [*first, Measured(("node01", "node02"), "pair", 2, "ok", FAST)]
    assert conclude(nodes, (), {}, tests, Rule()).blamed() == ("node04",)


def test_a_node_that_fails_by_itself_is_blamed_for_it() -> None:
    tests = [
        Measured(names(3), "whole", 0, "corrupt", reason="node02: wrong bits"),
        *(Measured((n,), "alone", 0, "ok", 400.0) for n in ("node01", "node03")),
        Measured(("node02",), "alone", 0, "corrupt", reason="node02: wrong bits at rank 3"),
        Measured(("node01", "node03"), "pair", 1, "ok", FAST),
    ]
    told = conclude(names(3), (), {}, tests, Rule())
    assert told.blamed() == ("node02",)
    assert "fails by itself: corrupt" in told.faults[0].words


def test_a_set_that_cannot_start_anywhere_is_unknown_and_blames_nobody() -> None:
    tests = [
        Measured(names(4), "whole", 0, "could-not-start", reason="node01: connect"),
        *(Measured(pair, "pair", 1, "could-not-start") for pair in matching(names(4), 0)),
    ]
    told = conclude(names(4), (), {}, tests, Rule())
    assert told.verdict is Verdict.UNKNOWN
    assert told.blamed() == ()


def test_a_set_that_fails_only_as_a_whole_is_said_to() -> None:
    tests = [
        Measured(names(4), "whole", 0, "hung", reason="node02: in 'connect'"),
        *(Measured(pair, "pair", 1, "ok", FAST) for pair in matching(names(4), 0)),
    ]
    told = conclude(names(4), (), {}, tests, Rule())
    assert told.verdict is Verdict.NO_GO
    assert told.faults[0].words.startswith("the whole set together: hung")


def test_the_reference_is_what_the_site_expects_or_what_better_pairs_reach() -> None:
    tests = [Measured((f"a{n}", f"b{n}"), "pair", 1, "ok", float(n)) for n in range(1, 9)]
    assert reference(tests, Rule(expected_gb_s=99.0)) == 99.0
    assert reference(tests, Rule()) == 7.0
    assert reference(tests[:2], Rule()) == 2.0
    assert reference([], Rule()) is None
