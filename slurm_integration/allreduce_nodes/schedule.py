"""Which nodes to test together next. Pure.

Disjoint pairs first, then each suspect with a node that is proven good: two rounds, and n/2 + 2k
tests for k bad nodes. Further rounds only where these two cannot tell: no pair was good, or a
test of three was bad although each of the three is good.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from slurm_integration.allreduce_nodes.model import Measured

Group = tuple[str, ...]
Wave = tuple[Group, ...]
"""Groups without a node in common, so that they run at the same time."""
Good = Callable[[Measured], bool]
MOST_MATCHINGS = 3
"""Four nodes have three ways to be paired; more of the same seldom tells anything new."""


def matching(nodes: Sequence[str], turn: int) -> Wave:
    """All nodes in disjoint pairs, an odd one making a triple; every `turn` pairs them anew.

    The circle method of round-robin tournaments: within n - 1 turns everybody meets everybody.
    """
    if len(nodes) < 2:
        return ()
    even = [*nodes[: len(nodes) - len(nodes) % 2]]
    spare = nodes[len(even) :]
    turn %= len(even) - 1
    ring = [even[0], *even[1 + turn :], *even[1 : 1 + turn]]
    pairs: list[Group] = [(ring[i], ring[-1 - i]) for i in range(len(ring) // 2)]
    if spare:
        last = turn % len(pairs)
        pairs = [*pairs[:last], *pairs[last + 1 :], (*pairs[last], *spare)]
    order = {node: place for place, node in enumerate(nodes)}
    return tuple(sorted(_sorted(pair, order) for pair in pairs))


def next_round(nodes: Sequence[str], tests: Iterable[Measured], good: Good) -> tuple[Wave, ...]:
    """The waves of the next round, one after the other; () where nothing is left to find out."""
    done = [test for test in tests if test.kind == "pair"]
    if not done:
        # Of three nodes a test of all three would say nothing new.
        if len(nodes) == 3:
            return tuple((pair,) for pair in combinations(nodes, 2))
        first = matching(nodes, 0)
        return (first,) if first else ()
    proven = proven_nodes(done, good)
    order = {node: place for place, node in enumerate(nodes)}
    tried = {frozenset(test.nodes) for test in done}
    here = [node for node in nodes if node not in _lost(done)]
    suspects = [node for node in here if node not in proven]
    if suspects and proven:
        confirmed = {node for node in suspects if _bad_with(node, proven, done, good)}
        unclear = [node for node in suspects if node not in confirmed]
        partners = [node for node in here if node in proven]
        if unclear and partners:
            return _with_proven(unclear, partners, tried, order)
    elif suspects:
        turns = max(test.round for test in done)
        if len(here) > 3 and turns < MOST_MATCHINGS:
            return (matching(here, turns),)
        return ()
    return _within_triples(done, proven, tried, good)


def proven_nodes(tests: Iterable[Measured], good: Good) -> frozenset[str]:
    """Nodes that took part in a good test."""
    return frozenset(node for test in tests if good(test) for node in test.nodes)


def _bad_with(node: str, proven: frozenset[str], tests: Iterable[Measured], good: Good) -> bool:
    """Whether a test of this node with a proven one was bad."""
    return any(
        node in test.nodes and len(test.nodes) == 2 and proven & {*test.nodes} and not good(test)
        for test in tests
    )


def _with_proven(
    suspects: Sequence[str], partners: Sequence[str], tried: set[frozenset[str]],
    order: dict[str, int],
) -> tuple[Wave, ...]:  # fmt: skip
    """Each suspect with a partner of its own, as many at a time as there are partners."""
    waves = []
    left = list(suspects)
    while left:
        free, wave, later = list(partners), [], []
        for node in left:
            partner = next((p for p in free if frozenset((node, p)) not in tried), None)
            if partner is None:
                later.append(node)
                continue
            free.remove(partner)
            wave.append(_sorted((node, partner), order))
        if not wave:
            break  # it has met every one of them
        waves.append(tuple(wave))
        left = later
    return tuple(waves)


def _within_triples(
    tests: Sequence[Measured], proven: frozenset[str], tried: set[frozenset[str]], good: Good
) -> tuple[Wave, ...]:
    """The pairs of a bad triple whose nodes are all good: one of its links is not."""
    return tuple(
        (pair,)
        for test in tests
        if len(test.nodes) == 3 and not good(test) and proven.issuperset(test.nodes)
        for pair in combinations(test.nodes, 2)
        if frozenset(pair) not in tried
    )


def _lost(tests: Iterable[Measured]) -> frozenset[str]:
    return frozenset(node for test in tests for node in test.lost)


def _sorted(group: Group, order: dict[str, int]) -> Group:
    return tuple(sorted(group, key=order.__getitem__))
