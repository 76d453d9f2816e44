"""Which rank ran on which node: every source there is, the best one first.

1 a rank map written at task start, 2 the exit record, 3 a line that names both (NCCL's
`host:pid:tid`, Megatron's `node:`, torchrun's table, srun's `HOST: task N`), 4 local ranks, which
stand in blocks: local rank 7 of rank 15 means that ranks 8 to 15 share its node, 5 arithmetic from
the layout of the tasks, which is a guess and said to be one.
"""

from collections.abc import Iterable, Sequence

import msgspec

from epilog.model import Evidence, JobFacts, RankPlace, TaskExit

MAP, RECORD, LINE, LOCAL, LAYOUT = (
    "rank map",
    "exit record",
    "the line itself",
    "local ranks",
    "task layout",
)


class Places(msgspec.Struct, frozen=True):
    """Ranks and nodes. `how` names the source of each rank's node."""

    nodes: dict[int, str] = {}
    how: dict[int, str] = {}
    local: dict[tuple[str, int], int] = {}
    gpus: dict[int, str] = {}

    def node(self, rank: int) -> str | None:
        """The node of a rank, short name."""
        return self.nodes.get(rank)

    def on(self, node: str) -> tuple[int, ...]:
        """All ranks known to run on a node."""
        return tuple(sorted(r for r, n in self.nodes.items() if n == node))


def short(host: str) -> str:
    """`node07.cluster.example` → `node07`; addresses stay as they are."""
    name = host.strip().strip("[]")
    if not name or name[0].isdigit() or ":" in name:
        return name
    return name.partition(".")[0]


def find_places(
    facts: JobFacts,
    evidence: Sequence[Evidence],
    exits: Sequence[TaskExit],
    maps: Iterable[RankPlace] = (),
    torchrun: bool = False,
) -> Places:
    """Put all sources together; a better source is never overwritten by a worse one."""
    nodes: dict[int, str] = {}
    how: dict[int, str] = {}
    local: dict[tuple[str, int], int] = {}
    gpus: dict[int, str] = {}

    def put(rank: int | None, host: str | None, source: str) -> None:
        if rank is not None and host and rank not in nodes:
            nodes[rank], how[rank] = short(host), source

    maps = tuple(maps)
    # More ranks than tasks: each task started several, and its number is none of theirs.
    tasks = sum(place.launcher for place in maps)
    launched = torchrun or any(seen.rank is not None and seen.rank >= tasks for seen in evidence)

    def put_map(places: Iterable[RankPlace]) -> None:
        for place in places:
            if place.launcher and launched:
                continue
            put(place.rank, place.host, MAP)
            if place.local_rank is not None:
                local.setdefault((short(place.host), place.local_rank), place.rank)
            if place.gpu_uuid:
                gpus.setdefault(place.rank, place.gpu_uuid)

    put_map(facts.ranks)
    for ended in exits:
        if ended.fact:
            put(ended.rank, ended.node, RECORD)
    put_map(maps)  # read from the log: better than a line of it, but a user can print one
    for ended in exits:
        put(ended.rank, ended.node, RECORD)
    for seen in evidence:
        if not _is_address(seen.host):
            put(seen.rank, seen.host, LINE)
            if seen.host and seen.rank is not None and seen.local_rank is not None:
                local.setdefault((short(seen.host), seen.local_rank), seen.rank)
    for seen in evidence:
        if seen.rank is not None and seen.local_rank is not None and not _is_address(seen.host):
            for rank in range(max(0, seen.rank - min(seen.local_rank, 64)), seen.rank):
                put(rank, seen.host, LOCAL)
    for rank, host in enumerate(_layout(facts, nodes, evidence, torchrun)):
        put(rank, host, LAYOUT)
    firsts: dict[str, int] = {}
    for rank, host in nodes.items():
        firsts[host] = min(rank, firsts.get(host, rank))
    for rank, host in nodes.items():
        if how[rank] == LAYOUT:
            local.setdefault((host, rank - firsts[host]), rank)
    return Places(nodes, how, local, gpus)


def _is_address(host: str | None) -> bool:
    return bool(host) and ((host[0].isdigit() and host.count(".") == 3) or host.count(":") > 1)  # type: ignore[index, union-attr]


def _layout(
    facts: JobFacts, known: dict[int, str], evidence: Iterable[Evidence], torchrun: bool
) -> list[str]:
    """The node of every rank by arithmetic: blocks of tasks in the order of the nodes.

    torchrun's c10d rendezvous gives its group ranks in the order of the hosts' names as text,
    so that node10 comes before node2.
    """
    nodes = [short(node) for node in facts.nodes]
    if not nodes:
        return []
    counts = list(facts.tasks_per_node)
    if len(counts) == 1:
        counts *= len(nodes)
    if len(counts) == len(nodes) and not (torchrun and set(counts) == {1}):
        order = sorted(zip(nodes, counts, strict=True)) if torchrun else zip(nodes, counts)  # noqa: B905
        return [node for node, count in order for _ in range(min(count, 4096))]
    world = facts.world_size
    if world is None:
        top = max((e.rank for e in evidence if e.rank is not None), default=-1)
        world = -(-(max(top, *known, -1) + 1) // len(nodes)) * len(nodes) if top >= 0 else 0
    if world % len(nodes):
        return []
    if torchrun:
        nodes.sort()
    return [node for node in nodes for _ in range(world // len(nodes))]
