"""Firmware of the network cards."""

from collections.abc import Iterator

import msgspec

from healthcheck.checks._infiniband import cards
from healthcheck.model import Finding, NotApplicable, Snapshot, Unmeasured, warn
from healthcheck.registry import check


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`versions`: the versions allowed, by board id (`MT_0000000838`)."""

    versions: dict[str, tuple[str, ...]] = {}


@check("ib-firmware", needs=("hcas",), limits=Limits, source="/sys/class/infiniband/*/fw_ver")
def ib_firmware(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """All network cards of one kind run the same firmware, one that the site allows.

    What it means: cards of different firmware behave differently under congestion and after
    errors, which shows as one slow rank that nothing explains.

    What we do: compare the cards of each board id with each other and with the versions that the
    profile or the site lists, if any; a difference warns.

    What to do: bring the odd card to the common version with mlxfwmanager or flint, then reset it
    or reboot.
    """
    found = cards(node)
    if not found:
        raise NotApplicable("no InfiniBand or RoCE device here")
    if not any(hca.firmware for hca in found):
        raise Unmeasured("no device tells its firmware version")
    for board in sorted({hca.board_id or "" for hca in found}):
        same = [h for h in found if (h.board_id or "") == board and h.firmware]
        allowed = limits.versions.get(board)
        common = _most_frequent([hca.firmware or "" for hca in same])
        for hca in same:
            wrong = hca.firmware not in allowed if allowed else hca.firmware != common
            if wrong:
                expected = " or ".join(allowed) if allowed else common
                reason = "the site allows" if allowed else "most cards of this node run"
                yield warn(
                    hca.name,
                    f"{hca.name} ({hca.bus_id}, board {board or 'unknown'}) runs firmware "
                    f"{hca.firmware}; {reason} {expected}",
                    measured=hca.firmware,
                    expected=expected,
                    limit="versions" if allowed else None,
                )


def _most_frequent(versions: list[str]) -> str:
    """The commonest version; the higher word among equals, so that the answer is always one."""
    return max(sorted(set(versions), reverse=True), key=versions.count, default="")
