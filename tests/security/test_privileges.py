"""What the reader of a job's files can still do once it has given up root: nothing of root's."""

import ctypes
import os
import resource
from pathlib import Path

import pytest

from epilog.reader import drop
from epilog.reader.child import Reader, as_user
from epilog.reader.errand import Errand, Found

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user")
UID = 23_456


def told_by(work) -> dict[str, str]:
    """Run `work` where the reader reads, and bring its words back as notes."""

    def gather(errand, notes, deadline):
        yield Found(notes=tuple(f"{name}={value}" for name, value in work().items()))

    found = Reader(Errand(uid=UID, gid=UID, user=None, seconds=20.0), gather).collect()
    return dict(note.partition("=")[::2] for note in found.notes)


def refused(act) -> str:
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "allowed"


def test_root_can_not_be_had_back_in_any_way():
    def work() -> dict[str, str]:
        return {
            "setuid": refused(lambda: os.setuid(0)),
            "seteuid": refused(lambda: os.seteuid(0)),
            "setresuid": refused(lambda: os.setresuid(-1, 0, -1)),
            "setgid": refused(lambda: os.setgid(0)),
            "setgroups": refused(lambda: os.setgroups([0])),
            "chroot": refused(lambda: os.chroot("/")),
            "nice": refused(lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)),
            "limit": refused_limit(),
            "kill": refused(lambda: os.kill(os.getppid(), 0)),
            "memory": refused(lambda: os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR)),
            "parents": refused(lambda: os.listdir(f"/proc/{os.getppid()}/fd")),
            "kmsg": refused(lambda: os.open("/dev/kmsg", os.O_WRONLY)),
            "shadow": refused(lambda: os.open("/etc/shadow", os.O_RDONLY)),
        }

    told = told_by(work)
    assert len(told) == 13
    assert set(told.values()) == {"PermissionError"}, told


def refused_limit() -> str:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (ValueError, OSError):
        return "PermissionError"
    return "allowed"


def test_a_program_with_a_setuid_bit_gives_no_root(tmp_path):
    """no_new_privs: what is started does not become another user, and it is there for good."""
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    tool = tmp_path / "id"
    tool.write_bytes(Path("/usr/bin/id").read_bytes())
    tool.chmod(0o4755)

    def work() -> dict[str, str]:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(writer, 1)
            os.execv(tool, ["id", "-u"])
        os.close(writer)
        said = os.read(reader, 100).decode().strip()
        os.waitpid(pid, 0)
        return {"id": said}

    assert told_by(work) == {"id": str(UID)}


def test_nobody_of_the_users_can_look_into_the_reader():
    """It held root's memory a moment ago: not dumpable, so that ptrace and /proc/PID/mem fail."""

    def work() -> dict[str, str]:
        prctl = ctypes.CDLL(None).prctl
        return {"dumpable": str(prctl(3, 0, 0, 0, 0)), "nnp": str(prctl(39, 0, 0, 0, 0))}

    assert told_by(work) == {"dumpable": "0", "nnp": "1"}


def test_no_handle_of_roots_is_left_open(tmp_path):
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(secret, True)
    try:
        told = told_by(lambda: {"held": refused(lambda: os.fstat(secret))})
    finally:
        os.close(secret)
    assert told == {"held": "OSError"}


def test_a_kernel_that_does_not_drop_rights_reads_nothing(monkeypatch):
    """The drop is looked at afterwards, and what did not work stops everything."""
    monkeypatch.setattr(os, "setresuid", lambda *ids: None)
    told = Reader(Errand(uid=UID, gid=UID, user=None, seconds=20.0), lambda *a: iter(())).collect()
    assert "not read: cannot become uid 23456" in "\n".join(told.notes)
    assert not as_user(UID, UID, None, 5.0, lambda: None)


def test_links_in_the_middle_of_a_path_lead_nowhere_the_user_could_not_go(tmp_path):
    """O_NOFOLLOW guards the last part; those above it are walked with the user's rights."""
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    vault = tmp_path / "vault"
    vault.mkdir(0o700)
    (vault / "slurm.out").write_text("[rank0]: ValueError: x\n")
    os.chown(vault / "slurm.out", UID, UID)
    (tmp_path / "way").symlink_to(vault)
    errand = Errand(uid=UID, gid=UID, user=None, logs=(f"{tmp_path}/way/slurm.out",), seconds=20.0)
    found = Reader(errand).collect()
    assert found.files == ()
    assert "Permission denied" in "\n".join(found.notes)


assert drop.PR_SET_NO_NEW_PRIVS == 38
