"""What the InfiniBand checks share: ports, counter widths and growth that survives a reboot."""

from collections.abc import Iterable, Iterator

from healthcheck.model import Finding, Growth, Hca, NotApplicable, Port, Snapshot, Unmeasured, info

WIDTHS = {
    "link_downed": 8,
    "link_error_recovery": 8,
    "symbol_error": 16,
    "port_rcv_errors": 16,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
}
"""Bits of each counter in the PortCounters attribute (InfiniBand Architecture Specification,
vol. 1, Performance Management). Such counters stay at their maximum."""


def subject(hca: Hca, port: Port) -> str:
    """`mlx5_0/1`, the name of a port in findings and in the baseline."""
    return f"{hca.name}/{port.number}"


def cards(node: Snapshot) -> list[Hca]:
    """The devices that are a card's own function: no virtual, scalable or software device."""
    return [hca for hca in node.hcas or () if not hca.virtual]


def ports(node: Snapshot) -> Iterator[tuple[str, Hca, Port]]:
    """(subject, device, port) of every card's ports."""
    for hca in cards(node):
        for port in hca.ports:
            yield subject(hca, port), hca, port


def some_ports(node: Snapshot) -> list[tuple[str, Hca, Port]]:
    """The ports. Raises NotApplicable where there is none to judge."""
    found = list(ports(node))
    if not found:
        raise NotApplicable("no InfiniBand or RoCE port here")
    return found


def unread(node: Snapshot, counters: Iterable[str]) -> list[str]:
    """`mlx5_0/1 symbol_error`, for each of these counters that a port offers and will not tell."""
    return [
        f"{name} {counter}"
        for name, _, port in ports(node)
        for counter in counters
        if counter in port.unreadable
    ]


def tell_unread(judged: int, refused: list[str]) -> Iterator[Finding]:
    """Say which counters could not be judged, so that they never pass for good ones.

    Raises Unmeasured where none could be, NotApplicable where no port has such counters.
    """
    if not judged and not refused:
        raise NotApplicable("no port here offers these counters")
    if not refused:
        return
    more = ", …" if len(refused) > 3 else ""
    text = f"{len(refused)} counter(s) refuse to be read: {', '.join(refused[:3])}{more}"
    if not judged:
        raise Unmeasured(text)
    yield info(refused[0].partition(" ")[0], f"{text}; not judged")


def saturated(counter: str, value: int) -> bool:
    """Whether the counter stands at its maximum and can count no further.

    Newer kernels show the extended 32- or 64-bit values: one above the classic width is such.
    """
    width = WIDTHS.get(counter)
    return width is not None and value == (1 << width) - 1


def growth(node: Snapshot, port: str, counter: str, value: int | None) -> Growth | None:
    """Growth since the baseline. Smaller than before = begun again from zero.

    A card may keep its counters over a reboot or not, so the boot says nothing here.
    """
    if value is None or node.baseline is None:
        return None
    was = node.baseline.counters.get(f"{port}|{counter}")
    return node.growth(port, counter, value, lifetime=was is not None and value >= was.value)


def rebooted(node: Snapshot) -> bool:
    """Whether the node started anew since the baseline, which takes every link down once."""
    before = node.baseline.boot_id if node.baseline else None
    return None not in (before, node.boot_id) and before != node.boot_id
