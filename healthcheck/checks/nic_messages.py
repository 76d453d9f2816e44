"""What the NIC driver (mlx5) says in the kernel log: power and health."""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import Action, Event, Finding, Snapshot, fail, warn
from healthcheck.registry import check

_DRIVER = "Linux kernel: drivers/net/ethernet/mellanox/mlx5/core"


class HealthLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From so many "Link down" messages of one device within a day on, a warning."""

    link_downs_per_day_warn: Annotated[int, msgspec.Meta(ge=1)] = 5


_SEVERITY = r"severity\((\d+)\)"
_RECOVERED = r"(?i)recovery succeeded"
_LINK_DOWN = r"(?i)\bLink down\b"
_LINK = r"(?i)\bLink (?:up|down)\b"
_MILD = r"(?i)High temperature on sensors|Port module event\[error\]"
_ERROR_LEVEL = 3
"""printk levels 0 to 3 are emergency to error; 4 is warning (print_health_info in health.c)."""


@check("nic-power", needs=("kernel_log",), source=f"{_DRIVER}/events.c")
def nic_power(node: Snapshot, limits: object) -> Iterator[Finding]:
    """No NIC has complained about the power that its slot gives.

    What it means: the firmware of the NIC read less power from its PCIe slot than the card or
    its optical modules need. Some machines never advertise slot power, and there the message
    is benign; elsewhere ports are slowed or switched off.

    What we do: a warning, never more by itself. A port that is off or slow fails ib-ports.

    What to do: compare with a sister node. Where only one node says it, check the slot, riser
    and auxiliary power of the card, and its bandwidth.
    """
    for subject, events in _by_subject(node.events("nic-power")):
        yield warn(
            subject,
            f'NIC power: "{events[-1].message[:140]}", {_times(events)} in this boot: benign on '
            "machines that all say it; otherwise check slot, riser and the bandwidth",
            measured=sum(event.count for event in events),
            expected=0,
        )


@check(
    "nic-health",
    needs=("kernel_log",),
    limits=HealthLimits,
    source=f"{_DRIVER}/health.c; five lost carriers a day: Azure node health checks",
)
def nic_health(node: Snapshot, limits: HealthLimits) -> Iterator[Finding]:
    """No NIC has reported a failure of its firmware or hardware.

    What it means: the driver watches the heartbeat and health buffer of the card. "health
    compromised", a fatal error or an assert mean that the card has stopped working; every job
    on the node loses its network.

    What we do: a failure that the driver did not recover from fails the node until a reboot or
    an accepted state; one that it did is a warning, as are high temperature, cable errors and
    a link that goes down again and again.

    What to do: reboot (a reset of the card's firmware: mlxfwreset); update the firmware; replace
    the card when it returns. For cable errors, clean or replace the cable or module.
    """
    for subject, events in _by_subject(node.events("nic")):
        health = [event for event in events if not re.search(_LINK, event.message)]
        if health:
            yield _judge_health(subject, health)
    for subject, events in _by_subject(node.events("nic", within_s=86_400.0)):
        downs = sum(event.count for event in events if re.search(_LINK_DOWN, event.message))
        if downs >= limits.link_downs_per_day_warn:
            yield warn(
                subject,
                f"the link of this NIC went down {downs} times in 24 h (warning from "
                f"{limits.link_downs_per_day_warn}): check cable, module and switch port",
                measured=downs,
                expected=limits.link_downs_per_day_warn - 1,
                limit="link_downs_per_day_warn",
            )


def _judge_health(subject: str, events: list[Event]) -> Finding:
    failures = [event for event in events if _is_failure(event.message)]
    recovered = max((e.at for e in events if re.search(_RECOVERED, e.message)), default=None)
    standing = [e for e in failures if recovered is None or e.at > recovered]
    count = sum(event.count for event in events)
    if standing:
        return fail(
            subject,
            f'NIC failure: "{standing[0].message[:140]}", {count} such messages in this boot: '
            "reboot the node, replace the card when it returns",
            measured=count,
            expected=0,
            action=Action.REBOOT,
        )
    kind = "the NIC failed and recovered" if failures else "NIC trouble"
    return warn(
        subject,
        f'{kind}: "{(failures or events)[-1].message[:140]}", {count} such messages in this boot: '
        "check temperature, cable and module, and the card's firmware",
        measured=count,
        expected=0,
    )


def _is_failure(message: str) -> bool:
    if re.search(_MILD, message) or re.search(_RECOVERED, message):
        return False
    stated = re.search(_SEVERITY, message)
    return stated is None or int(stated[1]) <= _ERROR_LEVEL


def _by_subject(events: list[Event]) -> list[tuple[str, list[Event]]]:
    groups: dict[str, list[Event]] = {}
    for event in events:
        groups.setdefault(event.subject or "unknown NIC", []).append(event)
    return sorted(groups.items())


def _times(events: list[Event]) -> str:
    count = sum(event.count for event in events)
    return "once" if count == 1 else f"{count} times"
