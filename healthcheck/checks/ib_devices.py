"""InfiniBand and RoCE devices."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._infiniband import cards
from healthcheck.model import Action, Finding, Snapshot, Unmeasured, fail, warn
from healthcheck.registry import check


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`hcas`: how many devices at least. `names`: those that must be there (`mlx5_0`)."""

    hcas: Annotated[int, msgspec.Meta(ge=1)]
    names: tuple[str, ...] = ()


@check("ib-devices", limits=Limits, source="/sys/class/infiniband")
def ib_devices(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Every InfiniBand or RoCE device of the profile is there and answers.

    What it means: without the device its GPU's traffic takes another way or none; jobs over
    several nodes run at a fraction of their speed or fail to start.

    What we do: fail when fewer devices exist than the profile says, or one that it names is
    missing; none at all is as bad as it gets, never "nothing to check". A card whose files give
    no answer has dead firmware, and fails too. Virtual and software devices don't count.

    What to do: look for mlx5_core in the kernel log; reload the driver or reboot; power-cycle
    for dead firmware; replace a card that does not come back.
    """
    if node.hcas is None:
        yield from _unread(node)
        return
    found = {hca.name: hca for hca in cards(node)}
    missing = [name for name in limits.names if name not in found]
    gone = _gone(node, set(found))
    if missing:
        yield fail(
            missing[0] if len(missing) == 1 else "node",
            f"InfiniBand device missing: {', '.join(missing)}{_silent_cards(node)}",
            measured=len(found),
            expected=max(limits.hcas, len(limits.names)),
            action=Action.REBOOT,
            limit="names",
        )
    elif len(found) < limits.hcas:
        lost = f"; gone since the last look: {', '.join(gone)}" if gone else ""
        yield fail(
            gone[0] if len(gone) == 1 else "node",
            f"{len(found)} of {limits.hcas} InfiniBand devices present{lost}{_silent_cards(node)}",
            measured=len(found),
            expected=limits.hcas,
            action=Action.REBOOT,
            limit="hcas",
        )
    elif gone and not limits.names:
        yield warn(
            gone[0],
            f"{', '.join(gone)} was here at the last look and is gone; the {limits.hcas} devices "
            f"of the profile are still present{_silent_cards(node)}",
            measured=len(found),
            expected=limits.hcas,
        )


def _unread(node: Snapshot) -> Iterator[Finding]:
    """A reading that hung names the card; any other is no statement about the node."""
    problem = node.problems.get("hcas")
    if problem is None or problem.kind != "hung":
        raise Unmeasured(f"hcas: {problem.reason if problem else 'not read'}")
    # /sys/class/infiniband/mlx5_3/ports/1
    device = (problem.subject or "").partition("/infiniband/")[2].partition("/")[0]
    yield fail(
        device or problem.subject or "node",
        f"InfiniBand device does not answer: {problem.reason}; its firmware is likely dead",
        action=Action.REBOOT,
    )


def _gone(node: Snapshot, found: set[str]) -> list[str]:
    """Devices that were counted before and are not here; none where they only changed names."""
    if node.baseline is None:
        return []
    ports = (key.partition("|") for key in node.baseline.counters)
    known = {port.partition("/")[0] for port, _, name in ports if name == "link_downed"}
    return sorted(known - found) if len(known) > len(found) else []


def _silent_cards(node: Snapshot) -> str:
    """The cards that are on the bus and have no InfiniBand device."""
    used = {hca.bus_id for hca in node.hcas or ()}
    bare = [
        f"{device.bus_id} ({'does not answer' if device.config_dead else _driver(device.driver)})"
        for device in node.pci or ()
        if device.kind == "nic" and not device.virtual and device.bus_id not in used
    ]
    return f"; on the PCI bus without one: {', '.join(bare)}" if bare else ""


def _driver(name: str | None) -> str:
    return f"driver {name}" if name else "no driver bound"
