"""What the tests mean: which node or link is to blame, or that none is. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from healthcheck.model import Verdict
from slurm_integration.allreduce_nodes.model import Conclusion, Fault, Measured, Rule
from slurm_integration.allreduce_nodes.schedule import proven_nodes

STARTS = ("could-not-start", "unfinished", "lost")
"""Ends that are no evidence against hardware."""


def reference(tests: Iterable[Measured], rule: Rule) -> float | None:
    """GB/s that a good pair reaches: what the site expects, else the upper quartile of the pairs.

    Not the median: with one slow node in each of most pairs that would be a slow one. Of less
    than four pairs it is the best.
    """
    if rule.expected_gb_s is not None:
        return rule.expected_gb_s
    figures = sorted(
        test.busbw_gb_s
        for test in tests
        if test.kind == "pair" and test.end == "ok" and test.busbw_gb_s is not None
    )
    return figures[math.ceil(0.75 * (len(figures) - 1))] if figures else None


def is_good(test: Measured, reference_gb_s: float | None, rule: Rule) -> bool:
    """Whether everything was right, and not slow where that can be told."""
    if test.end != "ok":
        return False
    if test.busbw_gb_s is None or reference_gb_s is None:
        return True
    return test.busbw_gb_s >= rule.fraction * reference_gb_s


def judge_with(tests: Sequence[Measured], rule: Rule) -> Callable[[Measured], bool]:
    """`is_good` for the tests so far."""
    standard = reference(tests, rule)
    return lambda test: is_good(test, standard, rule)


def conclude(
    nodes: Sequence[str], absent: Sequence[str], own_faults: Mapping[str, str],
    tests: Sequence[Measured], rule: Rule,
) -> Conclusion:  # fmt: skip
    """The faults, and the verdict on the set.

    `absent` never showed up; `own_faults`: nodes that told of themselves why they cannot take
    part, or were caught sending wrong bits.
    """
    standard = reference(tests, rule)
    good = judge_with(tests, rule)
    pairs = [test for test in tests if test.kind == "pair"]
    lost = _lost(tests)
    faults = [Fault("node", (node,), f"{node} did not show up") for node in absent]
    faults += [Fault("node", (n,), f"{n} went away during a test") for n in lost]
    faults += [Fault("node", (n,), f"{n}: {why}") for n, why in own_faults.items() if n not in lost]
    known = {*absent, *lost, *own_faults}
    faults += _alone(tests, rule, known)
    known |= {node for fault in faults for node in fault.nodes}
    proven = proven_nodes(pairs, good)
    faults += _nodes(nodes, pairs, proven, known, good)
    known |= {node for fault in faults for node in fault.nodes}
    faults += _links(pairs, proven, good)
    if not faults:
        faults += _whole(tests, pairs, good, standard, rule)
    return Conclusion(_verdict(faults, tests), tuple(faults), standard, _notes(tests, rule, good))


def _lost(tests: Iterable[Measured]) -> tuple[str, ...]:
    """Nodes that went away. Where all of a test did, the fault is not that of each (law 2)."""
    gone = (test.lost for test in tests if len(test.lost) < max(2, len(test.nodes)))
    return tuple(dict.fromkeys(node for lost in gone for node in lost))


def _alone(tests: Sequence[Measured], rule: Rule, known: set[str]) -> list[Fault]:
    """Nodes that are wrong without any other, or far slower by themselves than the others."""
    alone = [test for test in tests if test.kind == "alone" and test.nodes[0] not in known]
    faults = [
        Fault("node", test.nodes, f"{test.nodes[0]} fails by itself: {figure(test)}")
        for test in alone
        if test.end not in ("ok", *STARTS)
    ]
    timed = sorted(t.busbw_gb_s for t in alone if t.end == "ok" and t.busbw_gb_s is not None)
    usual = timed[len(timed) // 2] if len(timed) > 2 else None
    for test in alone:
        if usual and test.busbw_gb_s is not None and test.busbw_gb_s < rule.fraction * usual:
            words = (
                f"{test.nodes[0]} is slow by itself: {figure(test)}, the others {usual:.3g} GB/s"
            )
            faults.append(Fault("node", test.nodes, words))
    return faults


def _nodes(
    nodes: Sequence[str], pairs: Sequence[Measured], proven: frozenset[str], known: set[str],
    good: Callable[[Measured], bool],
) -> list[Fault]:  # fmt: skip
    """Nodes that are bad with every partner, one of them proven good."""
    faults = []
    for node in nodes:
        own = [test for test in pairs if node in test.nodes]
        if node in known or node in proven or not own:
            continue
        if not any(proven & {*test.nodes} for test in own):
            continue
        what = "is slow" if all(test.end == "ok" for test in own) else "fails"
        told = ", ".join(f"{_partners(node, test)} {figure(test)}" for test in own)
        faults.append(Fault("node", (node,), f"{node} {what} with every partner: {told}"))
    return faults


def _links(
    pairs: Sequence[Measured], proven: frozenset[str], good: Callable[[Measured], bool]
) -> list[Fault]:
    """Bad tests whose nodes are all good with others. A triple only where no pair of it is bad."""
    bad = [test for test in pairs if not good(test) and proven.issuperset(test.nodes)]
    two = [frozenset(test.nodes) for test in bad if len(test.nodes) == 2]
    faults = []
    for test in bad:
        if len(test.nodes) > 2 and any(pair <= {*test.nodes} for pair in two):
            continue
        what = "is slow" if test.end == "ok" else "fails"
        best = ", ".join(f"{node} {_best(node, pairs, good)}" for node in test.nodes)
        name = "–".join(test.nodes)
        link = f"the link {name}" if len(test.nodes) == 2 else f"a link among {name}"
        words = f"{link} {what}: {figure(test)}; with others {best}"
        faults.append(Fault("link", test.nodes, words))
    return faults


def _whole(
    tests: Sequence[Measured], pairs: Sequence[Measured], good: Callable[[Measured], bool],
    standard: float | None, rule: Rule,
) -> list[Fault]:  # fmt: skip
    """Nobody stands out: everything is bad, or only the set as a whole is."""
    bad = [test for test in pairs if not good(test)]
    everyone = tuple(dict.fromkeys(node for test in tests for node in test.nodes))
    if bad and len(everyone) == 2:
        words = f"{'–'.join(everyone)}: {figure(bad[0])}; two nodes cannot tell which, or the link"
        return [Fault("set", everyone, words)]
    if bad and len(bad) == len(pairs):
        slow = all(test.end == "ok" for test in bad)
        told = "; ".join(f"{'–'.join(test.nodes)} {figure(test)}" for test in bad[:8])
        what = f"every pair is slow (expected {standard:.3g} GB/s)" if slow else "every pair fails"
        return [Fault("set", everyone, f"{what}, so no single node is to blame: {told}")]
    if bad:
        told = "; ".join(f"{'–'.join(test.nodes)} {figure(test)}" for test in bad[:8])
        return [Fault("set", everyone, f"bad, and not localised in the time given: {told}")]
    whole = next((test for test in tests if test.kind == "whole"), None)
    if whole is None or (whole.end == "ok" and (rule.expected_gb_s is None or good(whole))):
        return []
    rest = "although every pair is good" if pairs else "and no pairs were tested"
    return [Fault("set", whole.nodes, f"the whole set together: {figure(whole)}, {rest}")]


def _verdict(faults: Sequence[Fault], tests: Sequence[Measured]) -> Verdict:
    """A node or link that is to blame is no-go; a set that only is slow flies, with a warning."""
    if not faults:
        return Verdict.GO if any(test.end == "ok" for test in tests) else Verdict.UNKNOWN
    if any(fault.kind != "set" for fault in faults):
        return Verdict.NO_GO
    ends = {test.end for test in tests}
    if ends - {"ok", *STARTS}:
        return Verdict.NO_GO
    return Verdict.UNKNOWN if ends & {*STARTS} else Verdict.DEGRADED


def _notes(
    tests: Sequence[Measured], rule: Rule, good: Callable[[Measured], bool]
) -> tuple[str, ...]:
    notes = []
    if rule.expected_gb_s is None and any(test.kind == "pair" for test in tests):
        notes.append(
            "no figure is expected (--expect): pairs are compared with each other, so that a "
            "fault which all of them share is not seen"
        )
    whole = next((test for test in tests if test.kind == "whole"), None)
    if (
        whole is not None
        and whole.end != "ok"
        and all(good(test) for test in tests if test.kind == "pair")
    ):
        notes.append(f"the whole set: {figure(whole)}")
    return tuple(notes)


def figure(test: Measured) -> str:
    """`11.8 GB/s`, or how it ended and why."""
    if test.end == "ok":
        return "no figure" if test.busbw_gb_s is None else f"{test.busbw_gb_s:.3g} GB/s"
    return f"{test.end} ({test.reason})" if test.reason else test.end


def _partners(node: str, test: Measured) -> str:
    return "–".join(other for other in test.nodes if other != node)


def _best(node: str, pairs: Sequence[Measured], good: Callable[[Measured], bool]) -> str:
    own = [t.busbw_gb_s for t in pairs if node in t.nodes and good(t) and t.busbw_gb_s is not None]
    return f"{max(own):.3g} GB/s" if own else "good"
