"""filesystem-space and mounts."""

from typing import Any

import pytest

from healthcheck.checks import filesystem_space as space_check
from healthcheck.checks import mounts as mounts_check
from healthcheck.model import Action, Filesystem, Finding, NotApplicable, Severity, Snapshot
from healthcheck.model import Unmeasured as UnmeasuredError

GIB = 1 << 30
MIB = 1 << 20


def disk(path: str = "/", size: float = 100 * GIB, free: float = 50 * GIB, **facts: Any) -> Any:
    values = {"kind": "ext4", "read_only": False, "inodes": 10**6, "inodes_free": 9 * 10**5}
    return Filesystem(path, "ok", size_bytes=int(size), free_bytes=int(free), **values | facts)


def space(*filesystems: Filesystem, **limits: Any) -> list[Finding]:
    node = Snapshot("n1", 0.0, filesystems=filesystems)
    return list(space_check.filesystem_space(node, space_check.Limits(**limits)))


def mounts(*filesystems: Filesystem, **limits: Any) -> list[Finding]:
    node = Snapshot("n1", 0.0, filesystems=filesystems)
    return list(mounts_check.mounts(node, mounts_check.Limits(**limits)))


@pytest.mark.parametrize(
    ("size", "free", "severity"),
    [
        (100 * GIB, 50 * GIB, None),
        (100 * GIB, 10 * GIB, None),
        (100 * GIB, 9 * GIB, Severity.WARN),
        (100 * GIB, 500 * MIB, Severity.WARN),
        (100 * GIB, 499 * MIB, Severity.FAIL),
        (100 * GIB, 0, Severity.FAIL),
        (1 * GIB, 300 * MIB, None),
        (1 * GIB, 90 * MIB, Severity.FAIL),
    ],
)
def test_space_of_root(size: int, free: int, severity: Severity | None) -> None:
    assert [f.severity for f in space(disk(size=size, free=free))] == (
        [severity] if severity else []
    )


@pytest.mark.parametrize(
    ("free", "severity"), [(10**5, None), (4 * 10**4, Severity.WARN), (10, Severity.FAIL)]
)
def test_inodes_of_root(free: int, severity: Severity | None) -> None:
    findings = space(disk(inodes_free=free))
    assert [f.severity for f in findings] == ([severity] if severity else [])


def test_a_file_system_that_counts_no_inodes_has_none_too_few() -> None:
    assert space(disk(kind="btrfs", inodes=0, inodes_free=0)) == []


def test_local_scratch_is_judged_and_a_network_file_system_only_by_name() -> None:
    full = {"size": 100 * GIB, "free": 1 * MIB}
    assert [f.subject for f in space(disk(), disk("/scratch", kind="xfs", **full))] == ["/scratch"]
    network = disk("/lustre", kind="lustre", **full)
    assert space(disk(), network) == []
    assert space(disk(), disk("/x", kind="fuse.sshfs", **full)) == []
    assert [f.subject for f in space(disk(), network, paths=("/lustre",))] == ["/lustre"]


def test_images_and_read_only_mounts_are_full_by_nature() -> None:
    assert space(disk(free=0, kind="squashfs")) == []
    assert space(disk(), disk("/data", free=0, read_only=True)) == []


def test_a_root_or_a_named_path_without_figures_is_unmeasured() -> None:
    with pytest.raises(UnmeasuredError, match="/: no answer"):
        space(Filesystem("/", "unknown", detail="no answer"))
    with pytest.raises(UnmeasuredError, match="/scratch is not among the mounts"):
        space(disk(), paths=("/scratch",))


def test_what_is_unmeasured_hides_no_finding() -> None:
    findings = space(disk(free=0), paths=("/scratch",))
    assert [f.severity for f in findings] == [Severity.FAIL, Severity.WARN]
    assert "/scratch" in findings[1].message


def test_healthy_mounts_pass() -> None:
    assert (
        mounts(disk(), disk("/home", kind="nfs4"), disk("/data", kind="nfs4", read_only=True)) == []
    )


@pytest.mark.parametrize(
    ("state", "action", "word"),
    [
        ("missing", Action.DRAIN, "does not exist"),
        ("not-mounted", Action.DRAIN, "nothing is mounted"),
        ("stale", Action.REBOOT, "stale"),
        ("hung", Action.REBOOT, "hangs"),
    ],
)
def test_a_lost_mount_fails_and_says_how(state: str, action: Action, word: str) -> None:
    (found,) = mounts(disk(), Filesystem("/shared", state, kind="nfs4", detail="told"))
    assert (found.severity, found.subject, found.action) == (Severity.FAIL, "/shared", action)
    assert word in found.message
    assert "nfs4" in found.message
    assert found.measured == state


def test_a_disk_that_turned_read_only_fails() -> None:
    (found,) = mounts(disk(read_only=True))
    assert (found.severity, found.subject, found.action) == (Severity.FAIL, "/", Action.REBOOT)
    assert mounts(disk(read_only=True), read_only_ok=("/",)) == []
    assert mounts(disk(kind="squashfs", read_only=True)) == []


def test_a_network_mount_must_be_writable_only_where_the_limits_say_so() -> None:
    home = disk("/home", kind="nfs4", read_only=True)
    assert mounts(disk(), home) == []
    assert [f.subject for f in mounts(disk(), home, writable=("/home",))] == ["/home"]


def test_a_mount_of_unknown_state_is_unmeasured_and_hides_no_hung_one() -> None:
    unknown = Filesystem("/a", "unknown", detail="Cannot allocate memory")
    with pytest.raises(UnmeasuredError, match="/a: Cannot allocate memory"):
        mounts(disk(), unknown)
    findings = mounts(disk(), unknown, Filesystem("/b", "hung"))
    assert [f.severity for f in findings] == [Severity.FAIL, Severity.WARN]


def test_nothing_named_and_nothing_known_of_root_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        mounts(Filesystem("/", "ok"))


def test_contradicting_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="both in read_only_ok and in writable"):
        mounts_check.Limits(read_only_ok=("/a",), writable=("/a",))
