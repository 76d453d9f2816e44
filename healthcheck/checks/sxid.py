"""NVSwitch errors (SXid) in the kernel log."""

import re
from collections.abc import Iterator

from healthcheck.model import Action, Event, Finding, Snapshot, fail, info, warn
from healthcheck.registry import check

_FATAL = r"(?i)^(?:fatal\b|severity 1\b)"
_NONFATAL = r"(?i)^(?:non[-_ ]?fatal\b|severity 0\b)"
_SOURCE = "NVIDIA Fabric Manager User Guide, NVSwitch SXid errors"


@check("sxid", needs=("kernel_log",), source=_SOURCE)
def sxid(node: Snapshot, limits: object) -> Iterator[Finding]:
    """No NVSwitch has reported an error since the last reboot.

    What it means: an SXid is the NVSwitch driver's report of an error of the switch or of one of
    its links. A fatal one stops the GPU behind that port, or the whole fabric, and shows as
    Xid 74 on the GPU. The line says whether it is fatal; where it does not, the guide's list
    decides.

    What we do: a fatal SXid fails the node until a reboot or an accepted state. A nonfatal one
    (a corrected bit, a replay) is a warning.

    What to do: reset all GPUs and NVSwitches together; a reboot does that. When it returns,
    inspect the switch or baseboard and the link that the line names.
    """
    groups: dict[tuple[str, int], list[Event]] = {}
    for event in node.events("sxid"):
        groups.setdefault((event.subject, event.code or 0), []).append(event)
    if not groups:
        return
    from healthcheck.knowledge import sxid as known

    fresh = {(e.at, e.code, e.subject) for e in node.new_events()}
    for (subject, code), events in sorted(groups.items(), key=lambda item: item[1][0].at):
        entry = known(code)
        severity = _severity(events, entry.severity)
        count = sum(event.count for event in events)
        line = next((e.message for e in events if not e.message.startswith("Data ")), "")
        what = (
            f"SXid {code} ({entry.name}) {count} times"
            if count > 1
            else (f"SXid {code} ({entry.name})")
        )
        what += f' "{line[:90]}"' if line else ""
        source = f"{_SOURCE}, SXid {code}"
        where = subject or "unknown NVSwitch"
        if severity == "fatal":
            yield fail(
                where,
                f"{what}: fatal; reset all GPUs and NVSwitches together by a reboot, inspect the "
                "link or baseboard when it returns",
                measured=count,
                expected=0,
                action=Action.REBOOT,
                source=source,
            )
        elif severity == "benign":
            if any((e.at, e.code, e.subject) in fresh for e in events):
                yield info(where, f"{what}: can be ignored", measured=count, source=source)
        else:
            advice = (entry.advice or "the severity is not known: review it").partition(". ")[0]
            yield warn(
                where,
                f"{what}: {severity}; {advice[:1].lower()}{advice[1:].rstrip('.')}",
                measured=count,
                expected=0,
                source=source,
            )


def _severity(events: list[Event], listed: str) -> str:
    """fatal, nonfatal, benign or unknown: the line's own word first, then the guide's list.

    An always-fatal code is fatal whatever its line says.
    """
    if listed == "always-fatal" or any(re.match(_FATAL, event.message) for event in events):
        return "fatal"
    if any(re.match(_NONFATAL, event.message) for event in events):
        return "benign" if listed == "benign" else "nonfatal"
    return listed
