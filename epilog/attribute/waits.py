"""Who waits for whom: from group to group until somebody waits for nobody."""

from collections.abc import Mapping

import msgspec

from epilog.attribute.groups import Group, is_pending, stuck_at


class Sink(msgspec.Struct, frozen=True):
    """Where the waiting ends. `path`: the groups it went through; `cycle`: a deadlock."""

    ranks: tuple[int, ...]
    path: tuple[str, ...]
    cycle: bool = False
    parked: dict[int, str] = {}


def sink(groups: Mapping[str, Group], first: str) -> Sink:
    """Follow the ranks that are behind in `first` into the groups where they wait themselves."""
    path = [first]
    ranks = groups[first].behind()
    parked: dict[int, str] = {}
    while True:
        onward = {r: name for r in ranks if (name := _waits_in(groups, r, path[-1])) is not None}
        if not onward or len(onward) < len(ranks):
            free = tuple(r for r in ranks if r not in onward)
            return Sink(free or ranks, tuple(path), parked=parked)
        parked.update(onward)
        name = _most_common(list(onward.values()))
        if name in path:
            return Sink(ranks, (*path, name), cycle=True, parked=parked)
        behind = groups[name].behind()
        if not behind:
            # They have all joined there, so what holds them is that other operation.
            return Sink(ranks, (*path, name), parked=parked)
        path.append(name)
        ranks = behind


def _waits_in(groups: Mapping[str, Group], rank: int, but: str) -> str | None:
    """Another group in which this rank has an operation that did not complete."""
    for name, group in groups.items():
        work = group.standing.get(rank)
        if name != but and work is not None and is_pending(work) and stuck_at(work) is not None:
            return name
    return None


def _most_common(names: list[str]) -> str:
    return max(sorted(set(names)), key=names.count)
