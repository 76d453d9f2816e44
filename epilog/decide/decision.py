"""What is done after a job: the class's own entry, held against what is proven and where."""

from collections.abc import Sequence

import msgspec

from epilog.attribute.settle import MOST_NODES, is_proof
from epilog.classes import Act, class_of
from epilog.decide.requeue import RequeuePolicy, may_requeue
from epilog.decide.suspicions import Suspicion, confirmed
from epilog.model import Attribution, Drain, JobFacts

NODE_CATEGORIES = ("hardware", "network", "infrastructure", "scheduler")


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a site allows.

    `drain`: whether proven hardware drains at all. `confirm_drains`: whether two suspicions from
    unrelated jobs drain for diagnosis. `window_s`: how long a suspicion is remembered, seconds.
    """

    drain: bool = True
    confirm_drains: bool = True
    window_s: float = 7 * 86_400.0
    requeue: RequeuePolicy = RequeuePolicy()


class Decision(msgspec.Struct, frozen=True):
    """What follows for nodes and job; `why` gives a reason for each part.

    `drain`: nodes with a fact of their own. `diagnose`: nodes to drain because two unrelated jobs
    accuse them. `suspicions`: to be remembered. `alert`: for the operators, no node is touched.
    """

    drain: tuple[str, ...] = ()
    diagnose: tuple[str, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    requeue: bool = False
    tell: bool = True
    alert: str = ""
    why: tuple[str, ...] = ()

    @property
    def proven_hardware(self) -> bool:
        """Whether a node is drained on a fact of its own."""
        return bool(self.drain)


def decide(
    attribution: Attribution,
    facts: JobFacts,
    remembered: Sequence[Suspicion] = (),
    policy: Policy | None = None,
    now: float = 0.0,
) -> Decision:
    """What to do. `remembered`: the suspicions so far; `now`: unix seconds.

    Text alone never drains: a node is drained here only if the attribution's evidence holds a
    fact of that very node of a class that lies in it, or if two jobs that have neither id nor
    user in common suspect it.
    """
    policy = policy or Policy()
    why: list[str] = []
    drain = _proven(attribution, policy, why)
    fresh = () if drain else _suspicions(attribution, facts, now, why)
    diagnose = _diagnosed(fresh, remembered, policy, now, why)
    requeue, reason = may_requeue(attribution, facts, bool(drain), policy.requeue)
    why.append(reason)
    return Decision(
        drain=drain,
        diagnose=diagnose,
        suspicions=fresh,
        requeue=requeue,
        tell=_act(attribution, bool(drain)) is not Act.NOTHING,
        alert=_alert(attribution),
        why=tuple(why),
    )


def _act(attribution: Attribution, proven: bool) -> Act:
    entry = class_of(attribution.klass)
    return entry.proven_action if proven else entry.text_action


def _proven(attribution: Attribution, policy: Policy, why: list[str]) -> tuple[str, ...]:
    """Root nodes with a fact of their own; never more than a job may cost the cluster."""
    if attribution.drain is not Drain.YES:
        return ()
    proof = {e.host for e in attribution.evidence if is_proof(e) and e.host}
    nodes = tuple(node for node in attribution.root.nodes if node in proof)
    if not nodes:
        why.append("no drain: no fact of the root node itself is among the evidence")
        return ()
    if len(nodes) > MOST_NODES:
        why.append(f"no drain: {len(nodes)} nodes at once, more than {MOST_NODES}: alert instead")
        return ()
    if not policy.drain:
        why.append("no drain: the configuration forbids it")
        return ()
    why.append(f"drain {', '.join(nodes)}: {attribution.klass}, by a fact read from it")
    return nodes


def _suspicions(
    attribution: Attribution, facts: JobFacts, now: float, why: list[str]
) -> tuple[Suspicion, ...]:
    """What to remember about nodes that text accuses."""
    if _act(attribution, False) is not Act.SUSPECT or attribution.drain is Drain.NO:
        return ()
    nodes = attribution.root.nodes
    if not nodes or len(nodes) > MOST_NODES:
        return ()
    if facts.job_id is None or facts.uid is None:
        why.append("nothing remembered: whose job it was is not known")
        return ()
    inside = {node.partition(".")[0] for node in facts.nodes}
    named = [node for node in nodes if not inside or node in inside]
    if len(named) < len(nodes):
        why.append("a node outside the job is not suspected, whatever the log says of it")
    if named:
        why.append(f"suspect {', '.join(named)}: {attribution.klass}, from text only")
    return tuple(
        Suspicion(node, attribution.klass, facts.job_id, facts.uid, now, attribution.message[:200])
        for node in named
    )


def _diagnosed(
    fresh: Sequence[Suspicion],
    remembered: Sequence[Suspicion],
    policy: Policy,
    now: float,
    why: list[str],
) -> tuple[str, ...]:
    if not policy.confirm_drains:
        return ()
    nodes = []
    for one in fresh:
        both = confirmed(one.node, (*remembered, *fresh), now, policy.window_s)
        if both:
            jobs = " and ".join(f"{s.job_id} (user {s.uid})" for s in both)
            why.append(f"drain {one.node} for diagnosis: unrelated jobs {jobs} both suspect it")
            nodes.append(one.node)
    return tuple(nodes)


def _alert(attribution: Attribution) -> str:
    nodes = {e.host for e in attribution.evidence if e.klass == attribution.klass and e.host}
    nodes |= set(attribution.root.nodes)
    category = attribution.category
    if category == "network" and len(nodes) > 1 and attribution.klass != "network/config":
        return f"{attribution.klass} on {len(nodes)} nodes: look at the fabric"
    if category == "hardware" and len(nodes) > MOST_NODES:
        return f"{attribution.klass} on {len(nodes)} nodes: look for what they share"
    if attribution.klass in ("infrastructure/fs-stale", "infrastructure/fs-slow"):
        return f"{attribution.klass}: look at the shared file system"
    return ""
