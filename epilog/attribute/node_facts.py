"""Step 2: what a node's kernel and counters say beats any text."""

import msgspec

from epilog.attribute import own_cause, timeouts
from epilog.attribute.case import Case, Claim, Step, hosts_of, ranks_of
from epilog.classes import class_of
from epilog.model import Evidence, Role

_FACT_CATEGORIES = ("hardware", "network", "infrastructure")
_MEMORY = frozenset({"hardware/gpu-ecc"})
SHOWN = 16
SAME_TIME_S = 300.0
"""Consequences of a fault are printed up to five minutes after it (Xid 119 after 74)."""


def strong(case: Case) -> Step:
    """A fault of hardware that a node itself reports, or None."""
    facts = [e for e in case.evidence if e.fact and e.role is Role.ROOT and _of_a_node(e)]
    if not facts:
        some = sum(e.fact for e in case.evidence)
        return Step(
            f"{some} facts of nodes, none of them a fault that ends a job by itself"
            if some
            else "no facts of nodes were given"
        )
    roots = _roots(facts)
    klass = roots[0].klass
    same = tuple(e for e in roots if e.klass == klass)
    nan = _local_nan(case, same)
    if nan is not None and klass in _MEMORY:
        why = "a local NaN on the rank whose node reports memory errors of a GPU"
        claim = Claim(
            "hardware/sdc", why, (nan, *same), ranks_of((nan,)), hosts_of(same), gpus(same)
        )
        return Step(why, claim)
    why = f"{', '.join(hosts_of(same)) or 'a node'} itself reports: {same[0].text.strip()[:120]}"
    return Step(why, Claim(klass, why, same, _ranks(case, same), hosts_of(same), gpus(same)))


def weak(case: Case) -> Step:
    """Facts that do not end a job by themselves, where no text names a cause."""
    facts = [e for e in case.evidence if e.fact and e.role is not Role.CONSEQUENCE]
    facts.sort(key=lambda e: (class_of(e.klass).weight, e.at or 0.0))
    if not facts:
        return Step("nothing further from the nodes")
    same = tuple(e for e in facts if e.klass == facts[0].klass)
    why = f"the only cause in sight is what {', '.join(hosts_of(same)) or 'a node'} reports"
    claim = Claim(same[0].klass, why, same, _ranks(case, same), hosts_of(same), gpus(same), 0.6)
    return Step(why, claim)


def supporting(case: Case, claim: Claim) -> Claim:
    """Add the node's own facts of the same class to a claim made from text."""
    held = {id(e) for e in claim.evidence}
    facts = tuple(
        e
        for e in case.evidence
        if e.fact and e.klass == claim.klass and id(e) not in held and _same_node(e, claim)
    )[:SHOWN]
    if not facts:
        return claim
    return msgspec.structs.replace(
        claim,
        evidence=(*claim.evidence, *facts),
        nodes=claim.nodes or hosts_of(facts),
        gpus=claim.gpus or gpus(facts),
    )


def gpus(evidence: tuple[Evidence, ...]) -> tuple[str, ...]:
    """The GPUs that facts name, as PCI addresses or UUIDs."""
    return tuple(dict.fromkeys(e.fields["gpu"] for e in evidence if e.fact and e.fields.get("gpu")))


def _of_a_node(e: Evidence) -> bool:
    return e.klass.partition("/")[0] in _FACT_CATEGORIES


def _roots(facts: list[Evidence]) -> list[Evidence]:
    """Per node the cause of what follows it; the node that began it first comes first."""
    best: dict[str | None, Evidence] = {}
    for e in facts:
        held = best.get(e.host)
        if held is None or _causes(e, held):
            best[e.host] = e
    order = sorted(best.values(), key=lambda e: (e.at is None, e.at or 0.0))
    first = {id(e) for e in order}
    return order + [e for e in facts if id(e) not in first and e.klass == order[0].klass]


def _causes(one: Evidence, other: Evidence) -> bool:
    apart = abs(one.at - other.at) if one.at is not None and other.at is not None else 0.0
    if apart > SAME_TIME_S:
        return (one.at or 0.0) < (other.at or 0.0)
    return class_of(one.klass).weight < class_of(other.klass).weight


def _ranks(case: Case, facts: tuple[Evidence, ...]) -> tuple[int, ...]:
    """The ranks on that GPU, where the rank map tells; text of the same class may name one too."""
    named = set(ranks_of(facts))
    addresses = {g.lower() for g in gpus(facts)}
    for rank, gpu in case.places.gpus.items():
        if gpu.lower() in addresses:
            named.add(rank)
    klass, hosts = facts[0].klass, set(hosts_of(facts))
    for e in case.evidence:
        if e.klass == klass and e.rank is not None and (e.host is None or e.host in hosts):
            named.add(e.rank)
    return tuple(sorted(named)) or _fell_out(case, hosts)


def _fell_out(case: Case, hosts: set[str]) -> tuple[int, ...]:
    """The ranks of these nodes that the log shows to have died or to be missing."""
    for step in (own_cause.step, timeouts.step):
        claim = step(case).claim
        ranks = claim.ranks if claim is not None else ()
        here = tuple(rank for rank in ranks if case.places.node(rank) in hosts)
        if here:
            return here
    return ()


def _local_nan(case: Case, facts: tuple[Evidence, ...]) -> Evidence | None:
    hosts = set(hosts_of(facts))
    for e in case.of(Role.ROOT):
        if e.klass == "user/nan" and e.rank is not None:
            node = e.host or case.places.node(e.rank)
            if node is not None and node in hosts:
                return e
    return None


def _same_node(e: Evidence, claim: Claim) -> bool:
    return not claim.nodes or e.host is None or e.host in claim.nodes
