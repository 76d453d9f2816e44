"""From what was scanned to a case: the last attempt only, ranks and hosts filled in (step 0)."""

from collections.abc import Mapping, Sequence

import msgspec

from epilog.attribute.case import Case
from epilog.attribute.exit_codes import recorded
from epilog.attribute.places import Places, find_places, short
from epilog.model import Evidence, JobFacts, RankPlace, TaskExit, Work

BEFORE_S, AFTER_S = 60.0, 600.0
"""A job's window for facts: the prolog's minute before it, and the epilog's time after it."""

_TORCHRUN = ("torchrun", "elastic")


def read_case(
    facts: JobFacts,
    evidence: Sequence[Evidence],
    works: Sequence[Work] = (),
    exits: Sequence[TaskExit] = (),
    maps: Sequence[RankPlace] = (),
    restarts: Mapping[str, int] | None = None,
    context: Sequence[Evidence] = (),
) -> tuple[Case, str]:
    """The case of the last attempt, and what this step has to say.

    `restarts`: the line of the last restart in each file that tells one; what stands before it
    is left out. Facts of a node count from the job's start to ten minutes after its end.
    """
    starts = restarts or {}
    kept = [e for e in evidence if _inside(e, facts, starts)]
    dropped = len(evidence) - len(kept)
    kept += recorded(facts.exits)
    torchrun = any(_by_torchrun(e) for e in kept)
    all_exits = tuple(_rank_of_task(x, torchrun, facts) for x in (*facts.exits, *exits))
    marked = [_rank_of_label(_known_host(e, facts), torchrun, facts) for e in kept]
    maps = [place for place in maps if _is_node(place.host, facts)]
    places = find_places(facts, marked, all_exits, maps, torchrun)
    alone = _one_node(facts, marked)
    placed = tuple(_placed(e, places, alone) for e in marked)
    said = "one attempt" if not dropped else f"{dropped} lines of earlier attempts left out"
    if not evidence:
        said = "no line says anything of a failure"
    beside = tuple(_placed(_rank_of_label(e, torchrun, facts), places, alone) for e in context)
    return Case(facts, placed, tuple(works), all_exits, places, beside), said


def _inside(e: Evidence, facts: JobFacts, starts: Mapping[str, int]) -> bool:
    """Within the last attempt. A log's clock may be local time, so only facts go by time."""
    if not e.fact:
        return e.line >= starts.get(e.file, 0)
    if e.at is None:
        return True
    if facts.started_at is not None and e.at < facts.started_at - BEFORE_S:
        return False
    return facts.ended_at is None or e.at <= facts.ended_at + AFTER_S


def _by_torchrun(e: Evidence) -> bool:
    return e.signature.startswith(_TORCHRUN) or "torch.distributed.elastic" in e.text


def _rank_of_label(e: Evidence, torchrun: bool, facts: JobFacts) -> Evidence:
    """`srun -l`'s number and `task N` are ranks, except under torchrun, where they are nodes."""
    tasks = e.fields.get("tasks")
    if e.rank is not None or (e.label is None and tasks is None):
        return e
    if not torchrun:
        fields = {**e.fields, "task_ranks": tasks} if tasks else e.fields
        return msgspec.structs.replace(e, rank=e.label, fields=fields)
    if e.host is None and e.label is not None and e.label < len(facts.nodes):
        return msgspec.structs.replace(e, host=facts.nodes[e.label])
    return e


def _rank_of_task(x: TaskExit, torchrun: bool, facts: JobFacts) -> TaskExit:
    if x.node is not None and not _is_node(x.node, facts):
        x = msgspec.structs.replace(x, node=None)
    if x.rank is None and x.label is not None and not torchrun:
        x = msgspec.structs.replace(x, rank=x.label)
    return x


def _is_node(host: str, facts: JobFacts) -> bool:
    """Whether this is a node of the job. Where the nodes are not known any name will do."""
    if short(host) in ("localhost", "localhost4", "localhost6", "127"):
        return False
    return not facts.nodes or short(host) in {short(node) for node in facts.nodes}


def _known_host(e: Evidence, facts: JobFacts) -> Evidence:
    """A name that is no node of the job says nothing of where (a container's host name)."""
    if e.host is None or e.fact or _is_node(e.host, facts):
        return e
    return msgspec.structs.replace(e, host=None)


def _one_node(facts: JobFacts, evidence: Sequence[Evidence]) -> bool:
    """Whether all that is known speaks of a single node."""
    if facts.nodes:
        return len(facts.nodes) == 1
    hosts = {short(e.host) for e in evidence if e.host}
    peers = {e.fields["peer"] for e in evidence if e.fields.get("peer")}
    return len(hosts) <= 1 and not peers


def _placed(e: Evidence, places: Places, alone: bool) -> Evidence:
    host = short(e.host) if e.host else None
    rank = e.rank
    if rank is None and e.local_rank is not None:
        rank = places.local.get((host, e.local_rank)) if host else None
        if rank is None and alone:
            rank = e.local_rank
    if host is None and rank is not None:
        host = places.node(rank)
    if rank == e.rank and host == e.host:
        return e
    return msgspec.structs.replace(e, rank=rank, host=host)
