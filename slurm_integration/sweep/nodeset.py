"""Node lists as people write them: bounded before anything is built in memory."""

import math
import re
from collections.abc import Iterable

from ClusterShell.NodeSet import NodeSet, NodeSetException

from slurm_integration.sweep.model import SweepError

MAX_NODES = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def expand(nodelist: str, option: str = "-w") -> list[str]:
    """`node[01-04,07]` → its names, each once, sorted as ClusterShell does.

    Raises SweepError for an empty list, a malformed one, or one of more than MAX_NODES names.
    """
    size = upper_bound(nodelist)
    if size > MAX_NODES:
        raise SweepError(f"{option}: expected 1 to {MAX_NODES} nodes, found up to {size}")
    try:
        nodes = NodeSet(nodelist)
    except NodeSetException as error:
        raise SweepError(f"{option}: expected node[01-04,07] or the like: {error}") from error
    if not 1 <= len(nodes) <= MAX_NODES:
        raise SweepError(f"{option}: expected 1 to {MAX_NODES} nodes, found {len(nodes)}")
    names = [str(name) for name in nodes]
    for name in names:
        if not _NAME.fullmatch(name):
            raise SweepError(
                f"{option}: expected names of letters, digits and . _ -, found {name[:80]!r}"
            )
    return names


def upper_bound(nodelist: str) -> int:
    """How many names the list can stand for at most."""
    total = 0
    for term in re.split(r",(?![^\[]*\])", nodelist):
        brackets = re.findall(r"\[([^\]]*)\]?", term)
        total += math.prod(sum(map(_range_size, text.split(","))) for text in brackets)
    return total


def _range_size(text: str) -> int:
    found = re.match(r"\s*(\d{1,18})\s*-\s*(\d+)", text)
    return max(1, int(found[2][:18]) - int(found[1]) + 1) if found else 1


def fold(names: Iterable[str]) -> str:
    """`node01`, `node02` → `node[01-02]`."""
    return str(NodeSet.fromlist(list(names)))
