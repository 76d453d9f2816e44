"""Where a drained node stands on its way back. Pure."""

from enum import StrEnum

import msgspec

from healthcheck.model import Action
from slurm_integration.node_state import NodeState
from slurm_integration.requalify.book import Record
from slurm_integration.requalify.rules import Rules


class Stand(StrEnum):
    """The steps of the way back, and what blocks it."""

    UNTOUCHED = "untouched"
    """Down, reserved, in maintenance, powered off or rebooting: others are at work there."""
    REPLACE = "replace"
    """Hardware to be replaced: a person resumes it once that is done."""
    FLAPPING = "flapping"
    """Drained again too soon after a resume, too often: a person decides."""
    HELD_OFF = "held-off"
    """Drained again too soon: left alone until a time."""
    BUSY = "busy"
    """A job is still on it."""
    DUE = "due"
    WAITING = "waiting"
    """Passed lately; the next pass counts later."""
    PROVEN = "proven"


class Standing(msgspec.Struct, frozen=True):
    """A node's step, until when (unix seconds) it lasts where that is known, and why."""

    node: str
    stand: Stand
    until: float | None = None
    why: str = ""


_WORK = (
    ("MAINTENANCE", "in maintenance"),
    ("RESERVED", "reserved"),
    ("FAIL", "marked as failing"),
    ("REBOOT_REQUESTED", "a reboot is requested"),
    ("REBOOT_ISSUED", "rebooting"),
    ("NOT_RESPONDING", "slurmd does not respond"),
    ("INVALID_REG", "registered with less than slurm.conf says"),
    ("POWER_DOWN", "powering down"),
    ("POWERED_DOWN", "powered down"),
    ("POWERING_DOWN", "powering down"),
    ("POWER_UP", "powering up"),
    ("POWERING_UP", "powering up"),
    ("POWER_DRAIN", "powering down"),
    ("BLOCKED", "blocked"),
)
_SUFFIXES = {
    "*": "slurmd does not respond", "$": "in maintenance", "@": "a reboot is requested",
    "^": "rebooting", "~": "powered down", "#": "powering up", "%": "powering down",
    "!": "powering down",
}  # fmt: skip


def why_untouched(node: NodeState, reserved: bool) -> str:
    """Why this node, though drained by us, is somebody else's at the moment; "" where it is not.

    Flags and suffixes are those of slurm.h; 22.05 spells some as a suffix, later ones as a flag.
    """
    if node.base in ("DOWN", "ERROR", "UNKNOWN", "FUTURE"):
        return f"{node.base}, which a RESUME would hide"
    for flag, words in _WORK:
        if flag in node.flags:
            return words
    for suffix in node.suffix:
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    return "in an active reservation" if reserved else ""


def stand_of(
    record: Record, node: NodeState, now: float, rules: Rules, *, reserved: bool = False
) -> Standing:
    """Where a node that we drained stands now."""
    name = node.name
    if why := why_untouched(node, reserved):
        return Standing(name, Stand.UNTOUCHED, None, why)
    if record.replace:
        return Standing(name, Stand.REPLACE, None, record.reason)
    if record.strikes >= rules.max_strikes:
        times = f"drained again {record.strikes} times within {span(rules.flap_window_s)}"
        return Standing(name, Stand.FLAPPING, None, f"{times} of a resume")
    until = rules.hold_until(record.drained_at or 0.0, record.strikes)
    if until > now:
        why = f"drained again within {span(rules.flap_window_s)} of a resume"
        return Standing(name, Stand.HELD_OFF, until, why)
    if not node.drained:
        return Standing(name, Stand.BUSY, None, "a job is still on it")
    if not record.passes:
        return Standing(name, Stand.DUE, None, record.trouble)
    return _passed(record, name, now, rules)


def _passed(record: Record, name: str, now: float, rules: Rules) -> Standing:
    count, last = len(record.passes), record.passes[-1]
    over = last - record.passes[0]
    done = f"{count} of {rules.passes} clean passes"
    # A millisecond: thirds of an hour do not add up to one in floating point.
    if count >= rules.passes and over >= rules.spread_s - 0.001 and now - last <= rules.fresh_s:
        passes = f"{count} clean passes over {span(over)}" if count > 1 else "1 clean pass"
        return Standing(name, Stand.PROVEN, None, passes)
    due = last + rules.gap_s
    if now < due - 0.001:
        return Standing(name, Stand.WAITING, due, done)
    return Standing(name, Stand.DUE, None, done)


def wants_reboot(record: Record, node: NodeState, now: float, rules: Rules) -> bool:
    """Whether `scontrol reboot` is the next step, and ours to do."""
    if not (rules.reboot and node.drained and record.remedy is Action.REBOOT and record.trouble):
        return False
    if len(record.reboots) >= rules.max_reboots:
        return False
    return not record.reboots or now - record.reboots[-1] > rules.fresh_s


def span(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`, `2 days`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.3g} h"
    return f"{seconds / 86_400:.3g} days"
