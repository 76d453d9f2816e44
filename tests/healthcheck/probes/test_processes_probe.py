"""The processes probe: zombies, and what stays in D."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.host import LocalHost, RecordedHost
from healthcheck.probes import processes
from healthcheck.reading import Ask, Plan, Progress


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PAUSE_S", 0.0)


def stat(pid: int, name: str, state: str, started: int = 100) -> str:
    rest = " ".join(["0"] * 18)
    return f"{pid} ({name}) {state} {rest} {started} 1 2 3\n"


def put(root: Path, pid: int, text: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(text)


def read(host: LocalHost) -> dict[str, Any]:
    found: dict[str, Any] = processes.read(Ask(host, Plan(), Progress()))["processes"]
    return found


def test_zombies_and_blocked_are_counted(tmp_path: Path) -> None:
    put(tmp_path, 1, stat(1, "systemd", "S"))
    put(tmp_path, 20, stat(20, "defunct thing", "Z"))
    put(tmp_path, 30, stat(30, "nvidia-smi", "D"))
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/99").mkdir()
    assert read(RecordedHost(str(tmp_path))) == {
        "total": 3,
        "zombies": 1,
        "blocked": 1,
        "blocked_names": ["30 nvidia-smi"],
    }


class Moving(RecordedHost):
    """A process is in D at the first look only."""

    looks = 0

    def read_bytes(self, path: str, limit: int = 65_536) -> bytes:
        if path == "/proc/30/stat":
            self.looks += 1
            if self.looks > 1:
                return self.later
        return super().read_bytes(path, limit)

    later = stat(30, "dd", "R").encode()


@pytest.mark.parametrize("later", [stat(30, "dd", "R"), stat(30, "dd", "D", started=500), ""])
def test_a_moment_in_d_or_a_reused_pid_is_not_blocked(tmp_path: Path, later: str) -> None:
    put(tmp_path, 30, stat(30, "dd", "D"))
    host = Moving(str(tmp_path))
    host.later = later.encode()
    assert read(host)["blocked"] == 0
    assert host.looks == 2


def test_at_most_sixteen_names_are_kept(tmp_path: Path) -> None:
    for pid in range(100, 140):
        put(tmp_path, pid, stat(pid, "cp", "D"))
    found = read(RecordedHost(str(tmp_path)))
    assert (found["blocked"], len(found["blocked_names"])) == (40, 16)


@pytest.mark.parametrize("name", ["a b", "(sd-pam)", ") R 1 (", "x) D (y", "", "tmux: server"])
def test_names_may_hold_spaces_and_parentheses(name: str) -> None:
    parsed = processes.parse_stat(stat(7, name, "S"))
    assert parsed is not None
    assert (parsed.name, parsed.state, parsed.started) == (name, "S", "100")


def test_control_characters_of_a_name_are_removed() -> None:
    parsed = processes.parse_stat(stat(7, "\x1b[31mred\n", "D"))
    assert parsed is not None
    assert parsed.name == "?[31mred?"


@pytest.mark.parametrize("text", ["", "7", "7 (a", "7 (a)", "7 (a) S 1 2", "7 (a) " + "Z" * 30])
def test_odd_texts_are_no_process(text: str) -> None:
    assert processes.parse_stat(text) is None


def test_a_machine_without_proc_is_absent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(RecordedHost(str(tmp_path)))
    (tmp_path / "proc").mkdir()
    with pytest.raises(FileNotFoundError):
        read(RecordedHost(str(tmp_path)))


def test_this_machine_has_processes() -> None:
    assert read(LocalHost())["total"] > 1


@given(st.text())
def test_any_text_is_a_process_or_none(text: str) -> None:
    parsed = processes.parse_stat(text)
    assert parsed is None or len(parsed.state) == 1
