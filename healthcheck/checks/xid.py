"""NVIDIA Xid errors in the kernel log."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec

from healthcheck.model import Event, Finding, Snapshot, warn
from healthcheck.registry import check

if TYPE_CHECKING:
    from healthcheck.checks._xid_rules import Case


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An Xid that matters on repetition fails when seen `repeat` times within `within_h` hours."""

    repeat: Annotated[int, msgspec.Meta(ge=2)] = 2
    within_h: Annotated[float, msgspec.Meta(gt=0, le=168)] = 24.0


REMEMBERED_S = 7 * 86_400.0
"""As long as a baseline keeps events."""


@check(
    "xid",
    needs=("kernel_log",),
    limits=Limits,
    source="NVIDIA Xid catalogue; repetition: two times in 24 h (contained ECC), "
    "replacement after two reboots (leptonai/gpud)",
)
def xid(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """The NVIDIA driver has reported no error of the hardware since the last reboot.

    What it means: an Xid is the driver's own report of an error on a GPU. Some belong to the
    program that ran (13, 31, 43, 45), some to the hardware (48, 74, 79, 95, 119), and one (154)
    carries the recovery that the driver asks for.

    What we do: every code has a rule (`flightcheck explain xid N`). A code of the hardware
    fails the node until it is rebooted or the operator accepts its state. A code of the
    application is told once and judges nothing, unless the same GPU shows it in the jobs of
    different users. Codes that only follow another one are shown under it. A contained memory
    error (94) fails on repetition; a code that returns after reboots asks for a new GPU.

    What to do: follow the finding. After a GPU reset, or when the cause is mended, run
    `flightcheck baseline accept`, so that the events of before judge no more.
    """
    log = node.kernel_log
    if log is not None and log.lost_records:
        yield warn(
            "kernel-log",
            f"{log.lost_records} kernel records were overwritten before they were read; an Xid "
            "among them would not be known: enlarge the kernel's log_buf_len",
            measured=log.lost_records,
            expected=0,
        )
    if node.events("xid"):
        from healthcheck.checks._xid_report import report

        yield from report(cases(node, limits), node.new_events(), limits)


def cases(node: Snapshot, limits: Limits) -> list["list[Case]"]:
    """The cases of each GPU that has an Xid of this boot."""
    from healthcheck.checks._xid_rules import CAUSED_BY, Case, recovery_of
    from healthcheck.knowledge import xid as known

    by_uuid = {gpu.uuid.lower(): gpu.bus_id for gpu in node.gpus or () if gpu.uuid and gpu.bus_id}
    now: dict[str, dict[int, list[Event]]] = {}
    for event in node.events("xid"):
        subject = by_uuid.get(event.subject, event.subject)
        now.setdefault(subject, {}).setdefault(event.code or 0, []).append(event)
    past = node.events("xid", within_s=REMEMBERED_S)
    since = node.taken_at - limits.within_h * 3600.0
    gpus = {gpu.bus_id: gpu for gpu in node.gpus or ()}
    found = []
    for subject, codes in now.items():
        # A line of a cause that was overwritten is known by those that name it.
        for event in codes.get(45, []):
            named = CAUSED_BY.search(event.message)
            if named and int(named[1]) not in codes:
                codes[int(named[1])] = [event]
        here = [e for e in past if by_uuid.get(e.subject, e.subject) == subject]
        resets = tuple(
            e.at for e in here if e.code == 154 and (recovery_of(e.message) or (None,))[0] == 0
        )
        gpu = gpus.get(subject)
        grown = node.growth(
            subject, "ecc_volatile_uncorrected", gpu.ecc_volatile_uncorrected if gpu else None
        )
        found.append(
            [
                Case(
                    xid=known(code),
                    subject=subject or "unknown GPU",
                    now=tuple(events),
                    recent=tuple(e for e in here if e.code == code and e.at >= since)
                    or tuple(events),
                    past=tuple(e for e in here if e.code == code),
                    resets=resets,
                    gpu=gpu,
                    ecc_grew=bool(grown and grown.delta),
                )
                for code, events in codes.items()
            ]
        )
    return found
