"""Each decision is one structured line: for journald in its own form, else for syslog."""

import os
import socket
from pathlib import Path

import pytest

from slurm_integration.notify.journal import as_journal, as_syslog, fields_of, write


class Listener:
    """A datagram socket in journald's or syslogd's place."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.door.bind(str(path))
        self.door.setblocking(False)

    def heard(self) -> list[bytes]:
        found = []
        while True:
            try:
                found.append(self.door.recv(65536))
            except BlockingIOError:
                return found


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Short: a socket's path ends at 107 bytes."""
    monkeypatch.chdir(tmp_path)
    return "."


FIELDS = {"MESSAGE": "no-go node01 [prolog] drain: why", "PRIORITY": "3", "SLURM_JOB_ID": "7",
          "FLIGHTCHECK_CHECK": "gpu-count"}  # fmt: skip


def test_journald_gets_fields(root):
    listener = Listener(Path(root + "/run/systemd/journal/socket"))
    syslog = Listener(Path(root + "/dev/log"))
    assert write(FIELDS, "auto", root)
    (data,) = listener.heard()
    assert dict(line.split("=", 1) for line in data.decode().splitlines()) == FIELDS
    assert syslog.heard() == []


def test_without_journald_syslog_gets_a_line(root):
    listener = Listener(Path(root + "/dev/log"))
    assert write(FIELDS, "auto", root)
    (data,) = listener.heard()
    assert (
        data
        == b"<27>flightcheck: no-go node01 [prolog] drain: why (job_id=7 check=gpu-count)".replace(
            b"job_id=7 check=gpu-count", b"SLURM_JOB_ID=7 check=gpu-count".lower()
        )
        or data.startswith(b"<27>flightcheck: no-go node01 [prolog] drain: why (")
    )


@pytest.mark.parametrize("where", ["auto", "journald", "syslog", "off"])
def test_nobody_listening_is_no_trouble(root, where):
    assert write(FIELDS, where, root) is False


def test_a_listener_that_takes_nothing_holds_nobody(root):
    listener = Listener(Path(root + "/dev/log"))
    for _ in range(5000):
        if not write(FIELDS, "syslog", root):
            break
    else:
        pytest.fail("the queue of a socket has no end?")
    assert listener.heard()


def test_no_value_can_forge_another_field(h100, job):
    from healthcheck.host import host_at
    from healthcheck.runner import Request, run
    from slurm_integration.job_env import read_job

    node = read_job({**job, "SLURM_JOB_USER": "eve\nPRIORITY=0\nMESSAGE=forged"})
    report = run(Request(host_at(str(h100.root)), stage="prolog", job=node)).report
    data = as_journal(fields_of(report, "alert", "why\nFLIGHTCHECK_VERDICT=go\x1b[1m", node))
    lines = data.decode().splitlines()
    assert sum(line.startswith("MESSAGE=") for line in lines) == 1
    assert sum(line.startswith("PRIORITY=") for line in lines) == 1
    assert all(line.isprintable() for line in lines)


def test_a_sick_node_writes_one_line_and_a_healthy_one_none(h100, job, tmp_path):
    """Through the hook, with a journald of our own in the place of the machine's."""
    traced = tmp_path / "trace"
    argv = ["strace", "-f", "-e", "trace=sendto,connect", "-s", "2000", "-o", str(traced)]
    import subprocess

    for broken in (False, True):
        if broken:
            h100.break_("xid-79")
        script = Path(h100.environment()["PATH"].split(":")[0]) / "flightcheck-prolog"
        subprocess.run(
            [*argv, str(script)], env=h100.environment(**job), capture_output=True, timeout=240
        )
        sent = [line for line in traced.read_text().splitlines() if "sendto(" in line]
        wrote = [
            line for line in sent if "/run/systemd/journal/socket" in line or "/dev/log" in line
        ]
        assert bool(wrote) is broken
        if broken:
            assert "FLIGHTCHECK_DECISION=drain" in wrote[0]
            assert "SLURM_JOB_ID=4711" in wrote[0]
    assert os.path.exists(traced)


def test_syslog_has_the_level_of_the_decision():
    assert as_syslog({**FIELDS, "PRIORITY": "5"}).startswith(b"<29>")
