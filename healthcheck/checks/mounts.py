"""Required mounts."""

from collections.abc import Iterator

import msgspec

from healthcheck.checks._partial import with_unmeasured
from healthcheck.model import Finding, NotApplicable, Snapshot, fail
from healthcheck.model.judgement import Action
from healthcheck.model.machine import Filesystem
from healthcheck.registry import check

DISK_KINDS = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "jfs", "bcachefs"))
"""Local file systems that the kernel itself turns read-only when the disk below gives errors."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Local disk file systems must be writable; others may be read-only on purpose.

    `read_only_ok`: local ones that are read-only on purpose. `writable`: mounts of any type that
    must be writable.
    """

    read_only_ok: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        both = sorted(set(self.read_only_ok) & set(self.writable))
        if both:
            raise ValueError(f"{', '.join(both)}: both in read_only_ok and in writable")


@check(
    "mounts",
    needs=("filesystems",),
    limits=Limits,
    source="man 2 statvfs; ext4 errors=remount-ro (man 5 ext4)",
)
def mounts(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Every mount that the profile or the configuration names is there, answers and is writable.

    What it means: a mount that is not there lets the job write into the directory below it and
    fill the root file system; one whose server is gone blocks every process that touches it, and
    they cannot be killed. A disk file system that turned read-only has met errors of its disk.

    What we do: ask each mount with a time limit, in a process that may hang without holding us.
    Missing, not mounted, stale, hung or wrongly read-only: fail.

    What to do: `mount PATH` for a missing one; for a stale or hung one check its server from
    another node first, then `umount -f -l PATH` and mount again, or reboot. Read-only: see the
    kernel log for the disk's errors before you remount it.
    """
    found: list[Finding] = []
    unknown: list[str] = []
    for filesystem in node.filesystems or ():
        if filesystem.state in _WORDS:
            found.append(_lost(filesystem))
        elif filesystem.state != "ok":
            unknown.append(f"{filesystem.path}: {filesystem.detail or 'no answer that we know'}")
        elif filesystem.read_only and _must_write(filesystem, limits):
            found.append(_read_only(filesystem))
    yield from with_unmeasured(found, unknown)
    if not [f for f in node.filesystems or () if f.path != "/"] and not _root_says(node):
        raise NotApplicable("neither the profile nor the configuration names a mount")


_WORDS = {
    "missing": ("the path does not exist", Action.DRAIN),
    "not-mounted": ("the directory is there but nothing is mounted on it", Action.DRAIN),
    "stale": ("the mount is stale: its server or disk is gone", Action.REBOOT),
    "hung": ("the mount hangs: jobs that touch it cannot be killed", Action.REBOOT),
}


def _lost(filesystem: Filesystem) -> Finding:
    words, action = _WORDS[filesystem.state]
    kind = f" ({filesystem.kind})" if filesystem.kind else ""
    told = f" [{filesystem.detail}]" if filesystem.detail else ""
    return fail(
        filesystem.path,
        f"required mount{kind}: {words}{told}",
        measured=filesystem.state,
        expected="mounted and answering",
        action=action,
    )


def _read_only(filesystem: Filesystem) -> Finding:
    return fail(
        filesystem.path,
        f"{filesystem.kind or 'file system'} is mounted read-only, expected writable",
        measured="read-only",
        expected="read-write",
        action=Action.REBOOT if filesystem.kind in DISK_KINDS else Action.DRAIN,
    )


def _must_write(filesystem: Filesystem, limits: Limits) -> bool:
    if filesystem.path in limits.writable:
        return True
    return filesystem.kind in DISK_KINDS and filesystem.path not in limits.read_only_ok


def _root_says(node: Snapshot) -> bool:
    """Whether the root file system alone gives this check something to judge."""
    return any(f.path == "/" and f.read_only is not None for f in node.filesystems or ())
