"""Required kernel modules."""

from collections.abc import Iterator

import msgspec

from healthcheck.model import Finding, Snapshot, fail
from healthcheck.model.judgement import Action
from healthcheck.registry import check


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`modules`: names that must be in the kernel; `a|b` means that either will do."""

    modules: tuple[str, ...]

    def __post_init__(self) -> None:
        for entry in self.modules:
            if not all(name.strip() for name in entry.split("|")):
                raise ValueError(f"expected a module name or names joined by |, found {entry!r}")


@check("kernel-modules", needs=("modules",), limits=Limits, source="man 8 lsmod, man 5 sysfs")
def kernel_modules(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Every kernel module that the profile names is loaded or built in.

    What it means: without nvidia_peermem (or nv_peer_mem) GPUDirect RDMA over peer memory does
    not work: NCCL then moves everything between nodes through main memory, at a fraction of the
    speed and without an error. Other modules are the site's own requirements.

    What we do: compare /proc/modules and /sys/module with the profile. A module that is not
    there, or stuck while loading or unloading: fail.

    What to do: `modprobe NAME` and look at the kernel log if that fails; after a driver or kernel
    update the module often was not rebuilt (`dkms status`).
    """
    present = {_plain(name) for name in node.modules or ()}
    for entry in limits.modules:
        names = [_plain(name) for name in entry.split("|")]
        if not present.intersection(names):
            yield fail(
                names[0],
                f"kernel module {' or '.join(names)} is not loaded",
                measured="not loaded",
                expected=" or ".join(names),
                action=Action.DRAIN,
                limit="modules",
            )


def _plain(name: str) -> str:
    """The kernel writes `_` where files and people write `-`."""
    return name.strip().replace("-", "_")
