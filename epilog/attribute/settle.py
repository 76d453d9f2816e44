"""From a claim to an answer: nodes of the ranks, spread over nodes (7), drain (8), confidence."""

import msgspec

from epilog.attribute.case import Case, Claim, hosts_of, ranks_of
from epilog.attribute.own_cause import is_local_disk
from epilog.attribute.places import LAYOUT
from epilog.classes import Fault, class_of
from epilog.model import Drain, Evidence, Role

IB_LINK = "network/ib-link"
SDC = "hardware/sdc"
FS_FULL = "infrastructure/fs-full"
DESYNC = "user/desync"
MOST_RANKS = 256
"""So many ranks alike name nobody."""
MOST_OWN_EXITS = 2
MOST_NODES = 2
"""More nodes than this are never drained for one job."""
UNPLACED = 0.7
"""The most that is claimed of a text that names neither rank nor node."""
UNKNOWN_MOST = 0.5


def located(case: Case, claim: Claim) -> Claim:
    """Fill in the nodes of the ranks, and the ranks' GPUs, as far as they are known."""
    if not claim.ranks and not claim.nodes:
        claim = _by_exits(case, claim)
    nodes = list(claim.nodes)
    if not nodes:
        nodes = [n for r in claim.ranks if (n := case.places.node(r)) is not None]
    if not nodes and not claim.ranks and len(case.facts.nodes) == 1:
        nodes = list(case.facts.nodes)
    gpus = claim.gpus or tuple(case.places.gpus[r] for r in claim.ranks if r in case.places.gpus)
    found = tuple(dict.fromkeys(nodes))
    if len(claim.ranks) > MOST_RANKS:
        return msgspec.structs.replace(claim, ranks=(), nodes=(), gpus=())
    return msgspec.structs.replace(claim, nodes=found, gpus=gpus)


def _by_exits(case: Case, claim: Claim) -> Claim:
    """A cause without a name belongs to the tasks that ended with a code of their own.

    Only where they are few: of many that end with code 1 most have lost their peer.
    """
    if class_of(claim.klass).fault not in (Fault.USER, Fault.SITE, Fault.HARDWARE):
        return claim
    if any("what():" in e.text for e in claim.evidence):
        # An exception of C++ that nobody catches aborts its process, and nearly nothing else does.
        return _belongs_to(claim, [e for e in case.evidence if _code(e) in (-6, 134)], 1)
    if claim.klass == DESYNC:
        return claim
    return _belongs_to(claim, [e for e in case.evidence if 0 < _code(e) < 128], MOST_OWN_EXITS)


def _belongs_to(claim: Claim, ended: list[Evidence], most: int) -> Claim:
    named = ranks_of(ended)
    if not named or len(named) > most:
        return claim
    return msgspec.structs.replace(
        claim, ranks=named, nodes=hosts_of(ended), confidence=claim.confidence * 0.9
    )


def _code(e: Evidence) -> int:
    text = e.fields.get("exitcode", "")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) < 8 else 0


def how_located(case: Case, claim: Claim) -> str:
    """In words where the nodes come from."""
    if not claim.nodes:
        return "no node is known for it"
    sources = {case.places.how[r] for r in claim.ranks if r in case.places.how}
    return f"{', '.join(claim.nodes[:4])}, from {' and '.join(sorted(sources)) or 'the evidence'}"


def affected(case: Case, claim: Claim) -> tuple[str, ...]:
    """All nodes that show the root class, root or not."""
    seen = [e for e in case.of(Role.ROOT) if e.klass == claim.klass]
    return tuple(dict.fromkeys((*claim.nodes, *hosts_of(seen))))


def spread(case: Case, claim: Claim) -> str:
    """Step 7: the same class on several nodes is not the node's fault."""
    nodes = affected(case, claim)
    if len(nodes) < 2:
        return "one node at most shows this class"
    words = f"{len(nodes)} nodes show the same class ({', '.join(nodes[:4])})"
    shared = "the fabric" if claim.klass.startswith("network/") else "a cause they share"
    return f"{words}: {shared}, not one node"


def drain_of(case: Case, claim: Claim) -> tuple[Drain, str]:
    """Step 8: a drain needs a hardware class AND a fact of that very node. Text alone: review."""
    entry = class_of(claim.klass)
    drain = entry.drain
    nodes = affected(case, claim)
    if claim.klass == FS_FULL and any(is_local_disk(e) for e in claim.evidence):
        drain = Drain.YES
    proof = [e for e in claim.evidence if is_proof(e)]
    if claim.klass == SDC and proof:
        drain = Drain.YES
    if claim.klass.startswith("infrastructure/") and not _plain(claim):
        return Drain.NO, "an error in general words accuses no node"
    if drain is Drain.NO:
        return Drain.NO, f"{claim.klass} is never a reason to drain"
    if len(nodes) > 1:
        if claim.klass == IB_LINK:
            return Drain.NO, "links of several nodes failed: alert for the fabric, drain none"
        return Drain.REVIEW, f"{len(nodes)} nodes alike: drain none of them for it"
    if drain is Drain.REVIEW:
        return Drain.REVIEW, f"{claim.klass}: an active check of the node has to decide"
    if not proof:
        return Drain.REVIEW, "only text says so, and users write text: the node's own facts decide"
    where = ", ".join(hosts_of(proof))
    return Drain.YES, f"a fact read from {where or 'that node'} itself"


def _plain(claim: Claim) -> bool:
    """Whether any line names the class itself, rather than something that may come of it."""
    return any(e.role is Role.ROOT for e in claim.evidence) or not claim.evidence


def is_proof(e: Evidence) -> bool:
    """A fact of a node that ends a job by itself, of a class that lies in the node."""
    if not e.fact or e.role is not Role.ROOT or not e.host:
        return False
    return class_of(e.klass).drain is Drain.YES


def confidence_of(case: Case, claim: Claim) -> float:
    """Between 0 and 1, never above what the class allows."""
    entry = class_of(claim.klass)
    facts = [e for e in claim.evidence if e.fact and e.klass == claim.klass]
    most = entry.proven if facts else entry.confidence
    value = min(most, 1.0) * claim.confidence
    if not facts and not claim.ranks and not claim.nodes and entry.fault is not Fault.SCHEDULER:
        value = min(value, UNPLACED)
    if (
        not facts
        and claim.ranks
        and all(case.places.how.get(r) == LAYOUT for r in claim.ranks)
        and claim.nodes
    ):
        value *= 0.97
    if claim.klass.startswith("unknown/"):
        value = min(value, UNKNOWN_MOST)
    return round(value, 3)
