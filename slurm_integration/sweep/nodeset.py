"""Node lists as people write them: bounded before anything is built in memory.

The only place that talks to ClusterShell, which looks up `@group` by pasting the name into a shell
command of its groups.conf, as it stands: `@a;id` would run id.
"""

import math
import re
from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError

from slurm_integration.folded import parts
from slurm_integration.sweep.model import SweepError

MAX_NODES = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_ENDLESS = re.compile(r"\d{10}")
_GROUP = re.compile(r"@[A-Za-z0-9_.:*\[\]-]+")
_RANGE = re.compile(r"\s*\d{1,9}(\s*-\s*\d{1,9}(/\d{1,9})?)?\s*")
_STRAY = (
    NodeSetException, GroupResolverError, GroupSourceError, ValueError, AssertionError, IndexError,
    TypeError, OverflowError,
)  # fmt: skip
"""What ClusterShell raises for lists that nobody would write by hand."""


def expand(nodelist: str, option: str = "-w") -> list[str]:
    """`node[01-04,07]` → its names, each once, sorted as ClusterShell does.

    Raises SweepError for an empty list, a malformed one, or one of more than MAX_NODES names.
    """
    size = upper_bound(nodelist)
    if size > MAX_NODES:
        raise SweepError(f"{option}: expected 1 to {MAX_NODES} nodes, found up to {size}")
    try:
        nodes = _parsed(nodelist, None)
    except ValueError as error:
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


def named(nodelist: str) -> NodeSet:
    """A list as Slurm writes it. Raises ValueError.

    `@group` is no group here: ClusterShell would run the site's commands to look it up.
    """
    if upper_bound(nodelist) > MAX_NODES:
        raise ValueError(f"more than {MAX_NODES} nodes")
    return _parsed(nodelist, RESOLVER_NOGROUP)


def _parsed(nodelist: str, resolver: object) -> NodeSet:
    if _ENDLESS.search(nodelist):
        raise ValueError("a number of ten digits or more")
    for inside in re.findall(r"\[([^\]]*)", nodelist):
        for piece in inside.split(","):
            if not _RANGE.fullmatch(piece):
                # ClusterShell reads 0-9-999999999 as a range that upper_bound does not see.
                raise ValueError(f"expected ranges such as 01-04,07, found [{inside[:80]}]")
    for term in re.split(r"[,!&^]|(?<=[^@\s])(?=@)", nodelist):
        if "@" in term and not _GROUP.fullmatch(term.strip()):
            raise ValueError(f"expected @group of letters, digits and . _ : -, found {term[:80]!r}")
    try:
        return NodeSet(nodelist, resolver=resolver)
    except _STRAY as error:
        raise ValueError(str(error)[:200]) from error


def upper_bound(nodelist: str) -> int:
    """How many names the list can stand for at most."""
    total = 0
    for term in parts(nodelist):
        brackets = re.findall(r"\[([^\]]*)\]?", term)
        total += math.prod(sum(map(_range_size, text.split(","))) for text in brackets)
    return total


def _range_size(text: str) -> int:
    found = re.match(r"\s*(\d{1,18})\s*-\s*(\d+)", text)
    return max(1, int(found[2][:18]) - int(found[1]) + 1) if found else 1


def fold(names: Iterable[str]) -> str:
    """`node01`, `node02` → `node[01-02]`."""
    known = list(names)
    try:
        return str(NodeSet.fromlist(known, resolver=RESOLVER_NOGROUP))
    except _STRAY:
        return ",".join(known)
