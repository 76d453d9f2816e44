"""Zombies and processes that cannot be killed."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.model import Finding, Processes, Snapshot, fail, warn
from healthcheck.model.judgement import Action
from healthcheck.registry import check

Count = Annotated[int, msgspec.Meta(ge=1)]

DRIVER_NAMES = ("nvidia-smi", "nv-hostengine", "nvidia-persiste", "nv-fabricmanage", "dcgmi")
"""Tools of the GPU driver, as /proc cuts their names (15 characters). One of them in D for a
second is waiting for a driver that does not answer."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of processes. `blocked_fail`: none by default, since slow storage blocks many."""

    zombies_warn: Count = 1000
    zombies_fail: Count = 2000
    blocked_warn: Count = 16
    blocked_fail: Count | None = None

    def __post_init__(self) -> None:
        for name in ("zombies", "blocked"):
            low, high = getattr(self, f"{name}_warn"), getattr(self, f"{name}_fail")
            if high is not None and low > high:
                raise ValueError(f"{name}_warn ({low}) is above {name}_fail ({high})")


@check(
    "processes",
    needs=("processes",),
    stages=("epilog", "health", "sweep"),
    limits=Limits,
    source="zombies: limits in public use, 1,000 and 2,000 (gpud); states: man 5 proc",
)
def processes(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Few processes are zombies, and none hangs in the kernel.

    What it means: zombies fill the process table until nothing can be started. A process that
    stays in uninterruptible sleep (D) waits for a device or a server that does not answer; no
    signal reaches it, and Slurm's "kill task failed" follows.

    What we do: warn at 1,000 zombies, fail at 2,000. Warn at 16 processes that are in D at three
    looks within a second, and at a single tool of the GPU driver (nvidia-smi and the like) that
    is. Not in the prolog, where reading the process table costs too much.

    What to do: for zombies find their parent (`ps -eo ppid,stat | grep Z`) and restart it. For
    blocked ones `cat /proc/PID/stack` names the driver or file system; usually only a reboot
    frees them.
    """
    assert node.processes is not None
    yield from _zombies(node.processes, limits)
    yield from _blocked(node.processes, limits)


def _zombies(seen: Processes, limits: Limits) -> Iterator[Finding]:
    told = f"{seen.zombies:,} of {seen.total:,} processes are zombies"
    if seen.zombies >= limits.zombies_fail:
        yield fail(
            "zombies",
            f"{told}, limit {limits.zombies_fail:,}: the process table fills up",
            measured=seen.zombies,
            expected=limits.zombies_fail,
            action=Action.REBOOT,
            limit="zombies_fail",
        )
    elif seen.zombies >= limits.zombies_warn:
        yield warn(
            "zombies",
            f"{told}, expected fewer than {limits.zombies_warn:,}",
            measured=seen.zombies,
            expected=limits.zombies_warn,
            limit="zombies_warn",
        )


def _blocked(seen: Processes, limits: Limits) -> Iterator[Finding]:
    names = ", ".join(seen.blocked_names[:8])
    more = f", … {seen.blocked - 8} more" if seen.blocked > 8 else ""
    told = f"{seen.blocked} processes hang in the kernel (pid and name: {names}{more})"
    if limits.blocked_fail is not None and seen.blocked >= limits.blocked_fail:
        yield fail(
            "blocked",
            f"{told}, limit {limits.blocked_fail}",
            measured=seen.blocked,
            expected=limits.blocked_fail,
            action=Action.REBOOT,
            limit="blocked_fail",
        )
    elif seen.blocked >= limits.blocked_warn:
        yield warn(
            "blocked",
            f"{told}, expected fewer than {limits.blocked_warn}",
            measured=seen.blocked,
            expected=limits.blocked_warn,
            limit="blocked_warn",
        )
    else:
        yield from _driver_tools(seen)


def _driver_tools(seen: Processes) -> Iterator[Finding]:
    stuck = [n for n in seen.blocked_names if n.partition(" ")[2].startswith(DRIVER_NAMES)]
    if stuck:
        yield warn(
            "blocked",
            f"{', '.join(stuck)} hangs in the kernel: the GPU driver gives no answer",
            measured=len(stuck),
            expected=0,
            action=Action.REBOOT,
        )
