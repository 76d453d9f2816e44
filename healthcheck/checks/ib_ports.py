"""InfiniBand and RoCE ports: state, rate and link layer."""

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from healthcheck.checks._infiniband import cards, growth, ports
from healthcheck.model import Action, Finding, Hca, Port, Snapshot, Unmeasured, fail
from healthcheck.registry import check

FABRIC = "fabric"
"""Subject of a finding that is about the network and not about this node."""
ACTIVE, LINK_UP = "ACTIVE", "LinkUp"
WAITING = ("INIT", "ARMED")
REMEMBERED_S = 7 * 86_400.0
UNKNOWN_RATE = 10.0
"""Old kernels print a speed that they don't know as 4X SDR (rate_show in core/sysfs.c)."""

Seen = tuple[str, Hca, Port]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`active`: how many ports are ACTIVE at `rate_gb_s` (Gb/s) or more, at least.

    `names`: judge these ports (`mlx5_0/1`, or `mlx5_0` for its port 1) and no others.
    """

    active: Annotated[int, msgspec.Meta(ge=1)]
    rate_gb_s: Annotated[float, msgspec.Meta(gt=0)]
    link_layer: Literal["InfiniBand", "Ethernet"]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse limits that contradict each other."""
        if self.names and self.active > len(self.names):
            raise ValueError(
                f"active = {self.active}, but names lists only {len(self.names)} ports"
            )


@check("ib-ports", needs=("hcas",), limits=Limits, source="/sys/class/infiniband/*/ports/*")
def ib_ports(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Enough InfiniBand or RoCE ports are ACTIVE at the profile's rate and on its link layer.

    What it means: a port that is down or slow slows every job that spans nodes to its own speed,
    or breaks it.

    What we do: judge the ports that the profile names, or else ask for so many good ones; further
    ports may be unused and down. What is missing is laid to the ports that look most like it: same
    kind of card, seen up before. A link that is up while its port waits in INIT has no subnet
    manager: that is the fabric and not this node. The finding then has the subject "fabric" and
    asks for no repair of the node; the job could not run here all the same.

    What to do: a port that polls: cable, transceiver, switch port, in this order, and see whether
    the fault moves with the cable. A low rate: the same, and the switch port's configured speed.
    INIT: the subnet manager (`sminfo`), and whether other nodes on that switch wait too.
    """
    seen = list(ports(node))
    _refuse_unknown_speeds(seen, limits)
    if limits.names:
        bad, absent = _named(seen, limits)
        yield from (_missing(node, name, limits) for name in absent)
        yield from _tell(seen, bad, limits, "")
        return
    bad, short = _suspects(node, seen, limits)
    if short and len(bad) != short:
        yield _too_few(seen, bad, short, limits)
        return
    yield from _tell(seen, bad, limits, _context(seen, bad, limits))


def _good(port: Port, limits: Limits) -> bool:
    return (
        port.state == ACTIVE
        and port.link_layer == limits.link_layer
        and (port.rate_gb_s or 0.0) >= limits.rate_gb_s
    )


def _refuse_unknown_speeds(seen: list[Seen], limits: Limits) -> None:
    """Raise Unmeasured where every link reads as SDR: then it is the kernel that can't tell."""
    rates = [port.rate_gb_s for _, _, port in seen if port.state == ACTIVE]
    if len(rates) > 1 and limits.rate_gb_s > UNKNOWN_RATE and set(rates) == {UNKNOWN_RATE}:
        raise Unmeasured(
            f"all {len(rates)} active ports read 10 Gb/s (SDR), which old kernels print for speeds "
            "they don't know; compare with `ibstat`"
        )


def _named(seen: list[Seen], limits: Limits) -> tuple[list[Seen], list[str]]:
    """The named ports that are not good, and the names that do not exist."""
    known = {name: one for one in seen for name in (one[0], one[0].removesuffix("/1"))}
    absent = [name for name in limits.names if name not in known]
    wanted = [known[name] for name in limits.names if name in known]
    return [one for one in wanted if not _good(one[2], limits)], absent


def _suspects(node: Snapshot, seen: list[Seen], limits: Limits) -> tuple[list[Seen], int]:
    """The ports most likely to be the missing ones, and how many are missing.

    Ports that look alike are all named, so there may be more of them than are missing.
    """
    good = [one for one in seen if _good(one[2], limits)]
    short = max(0, limits.active - len(good))
    if not short:
        return [], 0
    boards = {hca.board_id for _, hca, _ in good}
    fell = {event.subject for event in node.events("link-downed", within_s=REMEMBERED_S)}
    for name, _, port in seen:
        grown = growth(node, name, "link_downed", port.counters.get("link_downed"))
        if grown and grown.delta:
            fell.add(name)
    rest = [
        (_likeness(one, boards, fell, limits), one) for one in seen if not _good(one[2], limits)
    ]
    rest.sort(key=lambda pair: pair[0], reverse=True)
    if len(rest) <= short:
        return [one for _, one in rest], short
    last = rest[short - 1][0]
    return [one for rank, one in rest if rank >= last], short


def _likeness(
    one: Seen, boards: set[str | None], fell: set[str], limits: Limits
) -> tuple[bool, bool, bool, bool, bool]:
    """How much a bad port looks like one of those that should be good; greater is more."""
    name, hca, port = one
    return (
        port.link_layer in (limits.link_layer, None),
        hca.board_id in boards,
        name in fell,
        port.state in (ACTIVE, *WAITING) or port.phys_state == LINK_UP,
        port.counters.get("link_downed", 0) > 0,
    )


def _context(seen: list[Seen], bad: list[Seen], limits: Limits) -> str:
    """What else there is, for a reader who knows better which port was meant."""
    good = sum(_good(port, limits) for _, _, port in seen)
    others = [
        f"{name} ({port.state}, {port.phys_state})"
        for name, hca, port in seen
        if not _good(port, limits) and (name, hca, port) not in bad
    ]
    more = f"; taken for unused: {', '.join(others)}" if others else ""
    return f" ({good} of {limits.active} ports are good{more})"


def _tell(seen: list[Seen], bad: list[Seen], limits: Limits, context: str) -> Iterator[Finding]:
    waiting = [one for one in bad if _no_manager(one[2])]
    if waiting:
        names = ", ".join(name for name, _, _ in waiting)
        others = sum(port.state == ACTIVE for _, _, port in seen)
        served = f"; {others} other ports are ACTIVE, so look at this port's subnet" * bool(others)
        yield fail(
            FABRIC,
            f"{len(waiting)} port(s) have a link and no subnet manager ({names} in "
            f"{waiting[0][2].state}): this is the fabric, not this node{served}{context}",
            measured=waiting[0][2].state,
            expected=ACTIVE,
            action=Action.NONE,
        )
    for one in bad:
        if one not in waiting:
            finding = _port(one, limits)
            yield msgspec.structs.replace(finding, message=finding.message + context)


def _no_manager(port: Port) -> bool:
    return port.state in WAITING and port.phys_state == LINK_UP and port.link_layer == "InfiniBand"


def _port(one: Seen, limits: Limits) -> Finding:
    """What is wrong with one port."""
    name, hca, port = one
    where = f"{name} ({', '.join(filter(None, (hca.bus_id, port.netdev)))})".replace(" ()", "")
    if port.link_layer not in (limits.link_layer, None):
        return fail(
            name,
            f"{where}: link layer is {port.link_layer}, expected {limits.link_layer}; set the "
            "port's LINK_TYPE with mlxconfig and reboot",
            measured=port.link_layer,
            expected=limits.link_layer,
            action=Action.DRAIN,
            limit="link_layer",
        )
    if port.state != ACTIVE:
        state = f"{port.state or 'of unreadable state'}, {port.phys_state or 'link unreadable'}"
        return fail(
            name,
            f"{where}: port is {state}, expected ACTIVE, LinkUp; check cable, transceiver and "
            "switch port",
            measured=port.state,
            expected=ACTIVE,
            action=Action.DRAIN,
            limit="active",
        )
    rate = "unreadable" if port.rate_gb_s is None else f"{port.rate_gb_s:g} Gb/s"
    return fail(
        name,
        f"{where}: rate is {rate}, expected {limits.rate_gb_s:g} Gb/s; check cable, transceiver "
        "and the switch port's speed",
        measured=port.rate_gb_s,
        expected=limits.rate_gb_s,
        action=Action.DRAIN,
        limit="rate_gb_s",
    )


def _missing(node: Snapshot, name: str, limits: Limits) -> Finding:
    have = ", ".join(hca.name for hca in cards(node)) or "none"
    return fail(
        name,
        f"{name}: no such port, expected ACTIVE at {limits.rate_gb_s:g} Gb/s (devices here: "
        f"{have})",
        expected=ACTIVE,
        action=Action.REBOOT,
        limit="names",
    )


def _too_few(seen: list[Seen], bad: list[Seen], short: int, limits: Limits) -> Finding:
    """Ports are missing and nobody can say which ones."""
    good = limits.active - short
    kind = f"{limits.link_layer} ports ACTIVE at {limits.rate_gb_s:g} Gb/s"
    states = [f"{name} ({port.state}, {port.phys_state})" for name, _, port in bad]
    if len(bad) > short:
        which = f"{short} of these should be: {', '.join(states)}"
    elif bad:
        which = f"the others: {', '.join(states)}; {short - len(bad)} port(s) do not exist"
    else:
        which = "no other port exists on this node" if seen else "this node has no port at all"
    return fail(
        "node",
        f"{good} of {limits.active} {kind}; {which}",
        measured=good,
        expected=limits.active,
        action=Action.DRAIN,
        limit="active",
    )
