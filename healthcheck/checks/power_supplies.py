"""Power supplies."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._partial import with_unmeasured
from healthcheck.model import Finding, NotApplicable, Snapshot, fail, warn
from healthcheck.model.judgement import Action
from healthcheck.model.machine import PowerSupply
from healthcheck.registry import check

Count = Annotated[int, msgspec.Meta(ge=1, le=64)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`supplies`: how many the node is fitted with; `min_working`: how many it cannot do without.

    Both count what the management controller (IPMI) shows; without them nothing is counted.
    """

    supplies: Count | None = None
    min_working: Count | None = None

    def __post_init__(self) -> None:
        if self.supplies is not None and (self.min_working or 0) > self.supplies:
            raise ValueError(
                f"min_working ({self.min_working}) is more than supplies ({self.supplies})"
            )


@check(
    "power-supplies",
    needs=("power_supplies",),
    limits=Limits,
    source="IPMI 2.0 specification, sensor type 08h (table 42-3); kernel Documentation/hwmon",
)
def power_supplies(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Every power supply is present, has input power and reports no fault.

    What it means: with a supply gone the node may run on, but without redundancy, and the rest
    may not carry all GPUs at full load: the baseboard then brakes them (see gpu-power-brake) and
    the whole job waits for this node.

    What we do: a failed supply, a lost input or lost redundancy warns, since the node still
    works. It fails where the management controller says that the remaining supplies do not carry
    it, or where fewer work than the profile's `min_working`. In the prolog only hwmon is read;
    the management controller is asked at the other stages.

    What to do: check the power cord and the feed (PDU) of the supply named, then replace it. If
    many nodes of a rack show it at once, look at the feed first.
    """
    sensors = [s for s in node.power_supplies or () if s.kind != "source"]
    asked = [s for s in node.power_supplies or () if s.kind == "source"]
    supplies = [s for s in sensors if s.kind == "supply"]
    found = [*_states(sensors), *_counts(supplies, limits)]
    yield from with_unmeasured(found, _unknown(sensors, asked, limits))
    if not found and not sensors:
        raise NotApplicable("this machine shows no power supply sensors (hwmon, IPMI)")


def _states(sensors: list[PowerSupply]) -> Iterator[Finding]:
    for sensor in sensors:
        told = f" ({sensor.detail})" if sensor.detail else ""
        if sensor.state == "insufficient":
            yield fail(
                sensor.name,
                f"the power supplies left do not carry the node{told}; GPUs will be slowed or the "
                "node will go down",
                measured=sensor.detail,
                expected="fully redundant",
                action=Action.DRAIN,
            )
        elif sensor.state in _WORDS:
            words, expected, action = _WORDS[sensor.state]
            yield warn(
                sensor.name,
                f"{words}{told}; expected {expected}",
                measured=sensor.detail or sensor.state,
                expected=expected,
                action=action,
            )


_WORDS = {
    "failed": ("power supply failed", "a working supply", Action.REPLACE),
    "input-lost": ("power supply without input power", "input power present", Action.NONE),
    "redundancy-lost": ("power supplies no longer redundant", "full redundancy", Action.NONE),
    "alarm": ("power alarm", "no alarm", Action.NONE),
}


def _counts(supplies: list[PowerSupply], limits: Limits) -> Iterator[Finding]:
    """Judged only where the controller showed supplies that could be read."""
    readable = [s for s in supplies if s.state != "unknown"]
    if not readable:
        return
    working = sum(s.state in ("ok", "alarm") for s in readable)
    unknown = len(supplies) - len(readable)
    if limits.min_working is not None and working + unknown < limits.min_working:
        yield fail(
            "node",
            f"{working} power supplies work, the node needs {limits.min_working}",
            measured=working,
            expected=limits.min_working,
            action=Action.DRAIN,
            limit="min_working",
        )
    present = sum(s.state != "absent" for s in supplies)
    if limits.supplies is not None and present < limits.supplies:
        yield warn(
            "node",
            f"{present} power supplies are present, the node is fitted with {limits.supplies}",
            measured=present,
            expected=limits.supplies,
            limit="supplies",
        )


def _unknown(sensors: list[PowerSupply], asked: list[PowerSupply], limits: Limits) -> list[str]:
    """What should have been read and was not.

    A machine without a management controller, or without ipmitool, is one that we ask nothing;
    not so where the profile counts supplies.
    """
    counted = limits.supplies is not None or limits.min_working is not None
    silent = [f"{s.name}: {s.detail}" for s in asked if s.state == "unknown" or counted]
    if sensors and all(s.state in ("unknown", "absent") for s in sensors):
        silent.append(f"none of {len(sensors)} power supply sensors gives a reading")
    return silent
