"""Space on the root file system and on local scratch."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.checks._partial import with_unmeasured
from healthcheck.model import Finding, Snapshot, fail, warn
from healthcheck.model.judgement import Action
from healthcheck.model.machine import Filesystem
from healthcheck.registry import check

MIB = 1 << 20
MIN_INODES = 1000

NETWORK_KINDS = frozenset(
    (
        "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "wekafs", "cifs", "smb3", "glusterfs",
        "pvfs2", "orangefs", "9p", "afs", "virtiofs", "autofs", "panfs", "quobyte", "vastnfs",
        "daos", "bb_fuse",
    )
)  # fmt: skip
"""How full these are is no fault of this node, and draining nodes does not empty them."""
IMAGE_KINDS = frozenset(("squashfs", "erofs", "iso9660", "cramfs", "romfs"))
"""Images: always full, never written."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Free space in per cent and MiB, free inodes in per cent.

    `paths`: mounts to judge besides "/" and the local ones, for instance a network file system.
    They must be among the mounts of the profile or the configuration, or nobody measures them.
    """

    min_free_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 10.0
    min_free_mib: Annotated[float, msgspec.Meta(ge=0)] = 500.0
    min_free_inodes_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 5.0
    paths: tuple[str, ...] = ()


@check(
    "filesystem-space",
    needs=("filesystems",),
    limits=Limits,
    source="gpud's disk component tells of less than 500 MB free; 10 % and 5 % are ours",
)
def filesystem_space(node: Snapshot, limits: Limits) -> Iterator[Finding]:
    """The root file system and local scratch have room for logs, state and temporary files.

    What it means: on a full root file system slurmd cannot write its state, jobs cannot write
    their output to the spool, and containers do not start: every job that lands here fails.

    What we do: warn below 10 % free space or 5 % free inodes; fail below 500 MiB (on a file
    system smaller than 5 GB below 10 %) or without inodes. Network file systems are judged only
    where `paths` names them, images and read-only mounts never.

    What to do: find what filled it (`du -xh PATH | sort -h | tail`), usually logs, core files or
    container images of earlier jobs; remove that and resume the node.
    """
    found: list[Finding] = []
    unknown: list[str] = []
    known = {filesystem.path: filesystem for filesystem in node.filesystems or ()}
    for path in dict.fromkeys(("/", *known, *limits.paths)):
        filesystem = known.get(path)
        named = path == "/" or path in limits.paths
        if filesystem is None:
            if named:
                unknown.append(f"{path} is not among the mounts that were read")
        elif filesystem.size_bytes and filesystem.free_bytes is not None:
            if named or _local(filesystem):
                found += [*_space(filesystem, limits), *_inodes(filesystem, limits)]
        elif named and filesystem.state != "ok":
            unknown.append(f"{path}: {filesystem.detail or filesystem.state}")
    yield from with_unmeasured(found, unknown)


def _local(filesystem: Filesystem) -> bool:
    kind = filesystem.kind or ""
    return kind not in NETWORK_KINDS and not kind.startswith("fuse")


def _writable(filesystem: Filesystem) -> bool:
    return filesystem.kind not in IMAGE_KINDS and not filesystem.read_only


def _space(filesystem: Filesystem, limits: Limits) -> Iterator[Finding]:
    size, free = filesystem.size_bytes or 0, filesystem.free_bytes or 0
    if not _writable(filesystem):
        return
    percent = 100 * free / size
    told = f"{_human(free)} of {_human(size)} free ({percent:.1f} %)"
    least = min(limits.min_free_mib, size / MIB * limits.min_free_percent / 100)
    if free / MIB < least:
        yield fail(
            filesystem.path,
            f"{told}, at least {_human(least * MIB)} expected",
            measured=round(free / MIB, 1),
            expected=round(least, 1),
            action=Action.DRAIN,
            limit="min_free_mib",
        )
    elif percent < limits.min_free_percent:
        yield warn(
            filesystem.path,
            f"{told}, at least {limits.min_free_percent:g} % expected",
            measured=round(percent, 1),
            expected=limits.min_free_percent,
            limit="min_free_percent",
        )


def _human(size: float) -> str:
    return f"{size / MIB:,.0f} MiB" if size < 10_240 * MIB else f"{size / MIB / 1024:,.0f} GiB"


def _inodes(filesystem: Filesystem, limits: Limits) -> Iterator[Finding]:
    """Btrfs, tmpfs without a limit and many network file systems count none: nothing to judge."""
    inodes, free = filesystem.inodes, filesystem.inodes_free
    if not inodes or free is None or not _writable(filesystem):
        return
    percent = 100 * free / inodes
    told = f"{free:,} of {inodes:,} inodes free ({percent:.1f} %)"
    if free < min(MIN_INODES, inodes * limits.min_free_inodes_percent / 100):
        yield fail(
            filesystem.path,
            f"{told}: no new files can be made, at least {MIN_INODES:,} expected",
            measured=free,
            expected=MIN_INODES,
            action=Action.DRAIN,
        )
    elif percent < limits.min_free_inodes_percent:
        yield warn(
            filesystem.path,
            f"{told}, at least {limits.min_free_inodes_percent:g} % expected",
            measured=round(percent, 1),
            expected=limits.min_free_inodes_percent,
            limit="min_free_inodes_percent",
        )
