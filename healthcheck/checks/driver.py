"""The NVIDIA driver as a whole: does it answer, and is it the one the site wants."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._gpus import NODE, readable
from healthcheck.model import Action, Finding, NotApplicable, Snapshot, Unmeasured, fail, warn
from healthcheck.registry import check


class ResponseLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds for reading everything NVML says about all GPUs; a healthy driver takes < 1 s."""

    slow_s: Annotated[float, msgspec.Meta(gt=0)] = 3.0


@check(
    "driver-responsive",
    limits=ResponseLimits,
    source="a hung NVML call leaves every CUDA process of the node in the same wait",
)
def driver_responsive(node: Snapshot, limits: ResponseLimits) -> Iterator[Finding]:
    """The NVIDIA driver answers every call, and all of them within seconds.

    What it means: a call that never returns is stuck in the kernel driver, usually on one sick
    GPU; a job started here would hang in the same place.

    What we do: fail on a hung call, naming it and the GPU; warn where answers come slowly.

    What to do: drain, save `nvidia-bug-report.sh` output, reboot. If it comes back on the same
    GPU, have that GPU replaced. Slow answers without persistence mode: enable it.
    """
    problem = node.problems.get("driver")
    if problem is not None and problem.kind in ("hung", "slow"):
        yield _unanswered(problem.kind, problem.reason, problem.call, problem.subject)
        return
    driver = node.driver
    if driver is None:
        raise Unmeasured(problem.reason if problem else "the driver was not read")
    if driver.library_missing and not node.gpus:
        raise NotApplicable("there is no NVML library on this node")
    if driver.seconds > limits.slow_s:
        off = [gpu for gpu in node.gpus or () if gpu.persistence_mode is False]
        why = " (persistence mode is off, so the driver starts anew for each reader)" if off else ""
        yield warn(
            NODE,
            f"the driver took {driver.seconds:.1f} s for {driver.calls} calls, expected below "
            f"{limits.slow_s:g} s{why}; jobs will start slowly or hang",
            measured=driver.seconds,
            expected=limits.slow_s,
            limit="slow_s",
        )


def _unanswered(kind: str, reason: str, call: str | None, subject: str | None) -> Finding:
    if kind == "slow":
        return warn(
            NODE,
            f"the driver answers too slowly to be read in time: {reason}",
            action=Action.REBOOT,
        )
    if not (call or "").startswith("nvml"):
        # A library that cannot be loaded tells of a disk, not of the driver (law 2).
        raise Unmeasured(reason)
    return fail(
        subject or NODE,
        f"the NVIDIA driver hangs: {reason}; every CUDA process on this node would hang there",
        measured=call,
        expected="an answer",
        action=Action.REBOOT,
    )


class VersionLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`minimum`: the oldest driver allowed (`550.54.15`). `versions`: the only ones allowed."""

    minimum: str | None = None
    versions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is not a dotted version."""
        for version in (*self.versions, *([self.minimum] if self.minimum else [])):
            if _numbers(version) is None:
                raise ValueError(f"expected a driver version such as 550.54.15, found {version!r}")


@check(
    "gpu-driver-version",
    needs=("driver", "gpus"),
    limits=VersionLimits,
    source="the site's own choice of drivers",
)
def gpu_driver_version(node: Snapshot, limits: VersionLimits) -> Iterator[Finding]:
    """The driver is one of those the site runs, and not older than its minimum.

    What it means: jobs that span nodes of different drivers fail in NCCL or CUDA start-up, and
    old drivers lack fixes that the site counts on.

    What we do: fail below the minimum, warn where the version is not in the list.

    What to do: install the site's driver and reboot, or correct the profile.
    """
    if limits.minimum is None and not limits.versions:
        raise NotApplicable("neither the profile nor the site names a driver version")
    readable(node)
    version = node.driver.version if node.driver else None
    numbers = _numbers(version or "")
    if version is None or numbers is None:
        raise Unmeasured(f"the driver gives its version as {version!r}")
    if limits.minimum is not None and numbers < (_numbers(limits.minimum) or ()):
        yield fail(
            NODE,
            f"driver {version}, expected {limits.minimum} or newer",
            measured=version,
            expected=limits.minimum,
            action=Action.DRAIN,
            limit="minimum",
        )
    elif limits.versions and version not in limits.versions:
        wanted = " or ".join(limits.versions)
        yield warn(
            NODE,
            f"driver {version}, expected {wanted}: this node differs from the others",
            measured=version,
            expected=wanted,
            limit="versions",
        )


def _numbers(version: str) -> tuple[int, ...] | None:
    parts = version.split(".")
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        return None
    return tuple(int(part) for part in parts)
