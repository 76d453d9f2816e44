"""The storage probe: mounts that answer, that are gone, that never answer; services."""

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.attention import Attention
from healthcheck.host import RecordedHost
from healthcheck.probes import _services, storage
from healthcheck.reading import Ask, Plan, Progress, collect, launch

ROOT_SPACE = {"size_bytes": 1000, "free_bytes": 400, "inodes": 100, "inodes_free": 90}
TABLE = (
    "/dev/sda1 / ext4 rw,relatime 0 0\n"
    "srv:/shared /shared nfs4 rw,hard 0 0\n"
    "srv:/home /home nfs4 ro,hard 0 0\n"
    "mgs@o2ib:/lustre /lustre lustre rw,flock 0 0\n"
)


def machine(root: Path, space: dict[str, Any], table: str | None = TABLE) -> RecordedHost:
    (root / "proc").mkdir(exist_ok=True)
    if table is not None:
        (root / "proc/mounts").write_text(table)
    (root / "host.json").write_text(json.dumps({"space": {"/": ROOT_SPACE, **space}}))
    return RecordedHost(str(root))


def states(host: RecordedHost, *mounts: str) -> dict[str, dict[str, Any]]:
    facts = storage.read(Ask(host, Plan(mounts=mounts), Progress()))
    assert facts["problems"] == {}
    return {entry["path"]: entry for entry in facts["filesystems"]}


def test_root_is_measured_without_being_named(tmp_path: Path) -> None:
    found = states(machine(tmp_path, {}))
    assert list(found) == ["/"]
    assert found["/"]["free_bytes"] == 400
    assert (found["/"]["kind"], found["/"]["read_only"]) == ("ext4", False)


def test_a_healthy_mount_and_one_that_is_read_only(tmp_path: Path) -> None:
    found = states(machine(tmp_path, {"/shared": ROOT_SPACE}), "/shared/", "/home")
    assert found["/shared"]["state"] == "ok"
    assert (found["/home"]["state"], found["/home"]["read_only"]) == ("ok", True)


def test_a_stale_mount(tmp_path: Path) -> None:
    found = states(machine(tmp_path, {"/shared": "stale"}), "/shared")
    assert (found["/shared"]["state"], found["/shared"]["kind"]) == ("stale", "nfs4")


def test_a_directory_where_nothing_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    found = states(machine(tmp_path, {}), "/scratch", "/nowhere")
    assert found["/scratch"]["state"] == "not-mounted"
    assert found["/nowhere"]["state"] == "missing"


def test_a_link_to_a_mount_is_followed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "projects").symlink_to(tmp_path / "shared")
    found = states(machine(tmp_path, {"/shared": ROOT_SPACE}), "/projects")
    assert (found["/projects"]["state"], found["/projects"]["kind"]) == ("ok", "nfs4")


def test_without_a_mount_table_the_space_still_answers(tmp_path: Path) -> None:
    found = states(machine(tmp_path, {"/shared": ROOT_SPACE}, table=None), "/shared")
    assert (found["/shared"]["state"], found["/shared"]["kind"]) == ("ok", None)


class Refusing(RecordedHost):
    """A machine whose mounts answer with one error."""

    code = errno.EIO

    def space(self, path: str) -> Any:
        if path == "/":
            return super().space(path)
        raise OSError(self.code, os.strerror(self.code), path)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (errno.EIO, "stale"),
        (errno.ENOTCONN, "stale"),
        (errno.EHOSTDOWN, "stale"),
        (errno.ESHUTDOWN, "stale"),
        (errno.ETIMEDOUT, "stale"),
        (errno.ENOENT, "missing"),
        (errno.EACCES, "ok"),
        (errno.ENOMEM, "unknown"),
    ],
)
def test_what_an_error_of_a_mount_means(tmp_path: Path, code: int, state: str) -> None:
    machine(tmp_path, {})
    host = Refusing(str(tmp_path))
    host.code = code
    assert states(host, "/shared")["/shared"]["state"] == state


def test_a_root_that_cannot_be_measured_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text(TABLE)
    assert states(RecordedHost(str(tmp_path)))["/"]["state"] == "unknown"


def test_a_hung_mount_is_named_the_others_are_measured_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LOOKS", 4)
    host = machine(tmp_path, {"/shared": "hang", "/lustre": "hang", "/home": ROOT_SPACE})
    reading = launch("storage", host, Plan(mounts=("/shared", "/home", "/lustre")))
    child = reading._pid
    answers = collect([reading], time.monotonic() + 60, Attention())
    facts = answers["storage"]["facts"]
    found = {entry["path"]: entry["state"] for entry in facts["filesystems"]}
    assert found == {"/": "ok", "/shared": "hung", "/home": "ok", "/lustre": "hung"}
    assert gone(child)


def gone(pid: int) -> bool:
    """Whether the child has ended, reaped by us or by the reading, within ten seconds."""
    for _ in range(1000):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        time.sleep(0.01)
    return False


def test_the_hung_mount_stays_below_the_limit_of_the_whole_probe() -> None:
    from healthcheck.reading import HUNG_AFTER_S

    assert storage.MOUNT_ANSWER_S < HUNG_AFTER_S


def test_the_last_mount_on_a_point_is_the_one_that_is_seen() -> None:
    text = "systemd-1 /home autofs rw 0 0\nsrv:/home /home nfs4 ro 0 0\n"
    assert storage.parse_mounts(text) == {"/home": ("nfs4", True)}


def test_an_automount_is_asked_before_its_type_is_known(tmp_path: Path) -> None:
    table = "/dev/sda1 / ext4 rw 0 0\nsystemd-1 /home autofs rw 0 0\n"
    host = Mounting(str(tmp_path))
    machine(tmp_path, {"/home": ROOT_SPACE}, table)
    found = states(host, "/home")
    assert (found["/home"]["state"], found["/home"]["kind"]) == ("ok", "nfs4")


class Mounting(RecordedHost):
    """Mounts /home when somebody asks for it."""

    def space(self, path: str) -> Any:
        table = Path(self.root, "proc/mounts")
        if path == "/home" and "nfs4" not in table.read_text():
            table.write_text(table.read_text() + "srv:/home /home nfs4 rw 0 0\n")
        return super().space(path)


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"/a\040b", "/a b"), (r"/a\134b", "/a\\b"), (r"/a\9b", r"/a\9b"), ("/a\\", "/a\\")],
)
def test_octal_escapes_of_the_mount_table(written: str, meant: str) -> None:
    assert list(storage.parse_mounts(f"x {written} ext4 rw 0 0\n")) == [meant]


@given(st.text())
def test_any_mount_table_gives_paths(text: str) -> None:
    assert all(path.startswith("/") for path in storage.parse_mounts(text))


# Services


def put(root: Path, path: str, text: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def service(root: Path, name: str, stage: str = "prolog") -> str:
    plan = Plan(stage=stage, services=(name,))
    return _services.read_services(Ask(RecordedHost(str(root)), plan, Progress()))[name]


SLICE = "sys/fs/cgroup/system.slice"


def test_a_service_with_processes_is_active(tmp_path: Path) -> None:
    put(tmp_path, f"{SLICE}/slurmd.service/cgroup.procs", "4711\n")
    assert service(tmp_path, "slurmd") == "active"
    assert service(tmp_path, "slurmd.service") == "active"


def test_a_delegated_service_is_populated_below(tmp_path: Path) -> None:
    put(tmp_path, f"{SLICE}/docker.service/cgroup.procs", "")
    put(tmp_path, f"{SLICE}/docker.service/cgroup.events", "populated 1\nfrozen 0\n")
    assert service(tmp_path, "docker") == "active"


def test_control_groups_of_version_one(tmp_path: Path) -> None:
    put(tmp_path, "sys/fs/cgroup/systemd/system.slice/munge.service/cgroup.procs", "12\n")
    assert service(tmp_path, "munge") == "active"
    assert service(tmp_path, "slurmd") == "inactive"


def test_a_service_without_a_trace_is_inactive_and_without_systemd_unknown(tmp_path: Path) -> None:
    assert service(tmp_path, "nvidia-fabricmanager") == "unknown"
    put(tmp_path, f"{SLICE}/slurmd.service/cgroup.procs", "4711\n")
    assert service(tmp_path, "nvidia-fabricmanager") == "inactive"


def invocation(root: Path, unit: str) -> None:
    folder = root / "run/systemd/units"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"invocation:{unit}").symlink_to("0123456789abcdef")


def test_a_finished_one_shot_is_active(tmp_path: Path) -> None:
    put(tmp_path, f"{SLICE}/slurmd.service/cgroup.procs", "4711\n")
    put(tmp_path, "usr/lib/systemd/system/openibd.service", "[Service]\nType = oneshot\n")
    invocation(tmp_path, "openibd.service")
    assert service(tmp_path, "openibd") == "active"


def test_a_daemon_that_died_and_waits_to_be_started_again(tmp_path: Path) -> None:
    put(tmp_path, f"{SLICE}/slurmd.service/cgroup.procs", "4711\n")
    put(tmp_path, "usr/lib/systemd/system/dcgm.service", "[Service]\nType=simple\nRestart=always\n")
    invocation(tmp_path, "dcgm.service")
    assert service(tmp_path, "dcgm") == "activating"


def test_a_service_of_another_slice_is_told_by_its_link(tmp_path: Path) -> None:
    put(tmp_path, f"{SLICE}/slurmd.service/cgroup.procs", "4711\n")
    put(tmp_path, "etc/systemd/system/agent@.service", "[Service]\nSlice=agents.slice\n")
    invocation(tmp_path, "agent@1.service")
    assert service(tmp_path, "agent@1") == "active"


def test_links_of_other_units_prove_that_systemd_would_have_told(tmp_path: Path) -> None:
    invocation(tmp_path, "slurmd.service")
    assert service(tmp_path, "nvidia-fabricmanager") == "inactive"


def test_systemctl_has_the_last_word_outside_the_prolog(tmp_path: Path) -> None:
    put(tmp_path, f"{SLICE}/slurmd.service/cgroup.procs", "4711\n")
    command = "systemctl is-active openibd.service"
    answers = {"commands": {command: {"code": 0, "stdout": "active\n"}}}
    put(tmp_path, "host.json", json.dumps(answers))
    assert service(tmp_path, "openibd", "prolog") == "inactive"
    assert service(tmp_path, "openibd", "health") == "active"


def test_an_odd_answer_of_systemctl_is_not_believed(tmp_path: Path) -> None:
    command = "systemctl is-active x.service"
    answers = {"commands": {command: {"code": 1, "stdout": "Failed to connect to bus\n"}}}
    put(tmp_path, "host.json", json.dumps(answers))
    assert service(tmp_path, "x", "health") == "unknown"


@given(st.text())
def test_any_text_of_systemd_files_is_understood_or_not(text: str) -> None:
    assert _services.parse_populated(text) in (True, False, None)
    assert _services.parse_lingers(text) in (True, False)
    word = _services.parse_is_active(text)
    assert word is None or word in _services.KNOWN_STATES
    assert _services.unit_name(text)
