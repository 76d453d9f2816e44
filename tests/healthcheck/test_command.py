"""Running programs: what comes back, what is bounded, and what cannot hold us."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck import command
from healthcheck.command import run_command

LONG = 60.0


def sh(script: str, timeout: float = LONG, **more: object) -> command.Completed:
    return run_command(["/bin/sh", "-c", script], timeout, **more)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie waiting for init does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def gone(pid: int) -> bool:
    for _ in range(500):
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


def test_output_errors_and_exit_status_come_back() -> None:
    answer = sh("echo out; echo err >&2; exit 3")
    assert answer == (3, "out\n", "err\n")


def test_a_signal_is_a_negative_status() -> None:
    assert sh("kill -9 $$").code == -signal.SIGKILL


def test_the_environment_is_fixed() -> None:
    os.environ["LD_PRELOAD_TEST"] = "x"
    try:
        answer = run_command(["/usr/bin/env"], LONG, env={"EXTRA": "1"})
    finally:
        del os.environ["LD_PRELOAD_TEST"]
    assert set(answer.stdout.split()) == {f"PATH={command.PATH}", "LC_ALL=C", "EXTRA=1"}


def test_a_program_is_found_along_the_fixed_path() -> None:
    assert run_command(["env"], LONG).code == 0


def test_no_shell_reads_the_words() -> None:
    assert run_command(["echo", "$(id)", "; rm x", "*"], LONG).stdout == "$(id) ; rm x *\n"


def test_a_missing_program_is_file_not_found() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program-here"):
        run_command(["no-such-program-here"], LONG)
    with pytest.raises(FileNotFoundError):
        run_command(["/no/such/program"], LONG)


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("just text")
    with pytest.raises(PermissionError):
        run_command([str(file)], LONG)
    file.chmod(0o755)
    with pytest.raises(OSError, match=os.strerror(errno.ENOEXEC)):
        run_command([str(file)], LONG)


@pytest.mark.parametrize("argv", [[], ["echo", "a\0b"]])
def test_an_impossible_command_line_is_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="expected a command"):
        run_command(argv, LONG)


def test_input_of_any_size_is_handed_over() -> None:
    data = b"x" * 3_000_000
    assert sh("wc -c", stdin=data).stdout.strip() == "3000000"
    assert sh("cat").stdout == ""


def test_a_program_that_reads_no_input_is_no_error() -> None:
    assert sh("exec true", stdin=b"y" * 200_000).code == 0


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert sh(r"printf 'a\377b'").stdout == "a\ufffdb"


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_OUTPUT", 1 << 16)
    answer = sh("head -c 40000 /dev/zero | tr '\\0' a; exec head -c 1000000 /dev/zero 2>/dev/null")
    assert answer.code != 0
    assert 40_000 <= len(answer.stdout) <= 1 << 16
    assert answer.stdout.startswith("a" * 40_000)


def test_two_runs_of_output_keep_their_order() -> None:
    assert sh("echo 1; /bin/echo 2; echo 3; /bin/echo 4").stdout == "1\n2\n3\n4\n"


def test_a_program_beyond_its_time_is_ended_with_all_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    answer = sh(f"sleep 600 & echo $! $$ > {pids}; echo begun; wait", 1.0)
    assert answer.code is None
    assert answer.stdout == "begun\n"
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    answer = sh(f"trap '' TERM; echo $$ > {pids}; while :; do sleep 0.05; done", 1.0)
    assert answer.code is None
    assert gone(int(pids.read_text()))


def test_a_background_child_that_keeps_the_output_open_holds_nobody(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    answer = sh(f"sleep 600 & echo $! > {pids}; echo done")
    os.kill(int(pids.read_text()), signal.SIGKILL)
    assert answer == (0, "done\n", "")


def test_an_exec_that_never_returns_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the program's file lies on a mount whose server is gone."""
    parent = os.getpid()

    def hang(*_: object) -> None:
        assert os.getpid() != parent
        time.sleep(600)

    monkeypatch.setattr(os, "execvpe", hang)
    assert run_command(["true"], 0.3).code is None


def test_nothing_of_ours_is_inherited_but_the_three_streams() -> None:
    inheritable = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    try:
        assert sh("ls /proc/$$/fd").stdout.split() == ["0", "1", "2"]
    finally:
        os.close(inheritable)


def test_no_descriptor_is_left_open() -> None:
    before = os.listdir("/proc/self/fd")
    sh("echo x", stdin=b"y")
    with pytest.raises(FileNotFoundError):
        run_command(["/no/such/program"], LONG)
    assert os.listdir("/proc/self/fd") == before


def test_a_caller_with_closed_streams_is_served() -> None:
    script = (
        "import os, sys; os.close(0); os.close(1);"
        "from healthcheck.command import run_command;"
        "a = run_command(['/bin/sh', '-c', 'cat; echo err >&2'], 60, stdin=b'in');"
        "os.write(2, repr(tuple(a)).encode())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=240)
    assert done.stderr == b"(0, 'in', 'err\\n')"


def test_without_a_pidfd_the_end_is_noticed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.ENOSYS, "no")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert sh("sleep 0.05; echo x") == (0, "x\n", "")
    assert sh("sleep 600", 0.2).code is None


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A file system on which every write sleeps in the kernel, where no signal reaches it."""
    tools = ("mkfs.ext4", "mount", "umount", "fsfreeze")
    if os.geteuid() != 0 or not all(map(shutil.which, tools)):
        pytest.skip("needs root, mkfs.ext4, mount and fsfreeze")
    image, point = tmp_path / "image", tmp_path / "mount"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, point], capture_output=True).returncode:
        pytest.skip("this machine does not mount a loop device")
    try:
        subprocess.run(["fsfreeze", "-f", point], check=True)
        yield point
    finally:
        subprocess.run(["fsfreeze", "-u", point], check=False)
        for _ in range(100):
            if subprocess.run(["umount", point], capture_output=True).returncode == 0:
                break
            time.sleep(0.05)


def test_a_program_that_cannot_be_killed_is_left_behind(frozen: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    answer = sh(f"echo $$ > {pids}; exec touch {frozen}/x", 1.0)
    pid = int(pids.read_text())
    assert answer.code is None
    assert alive(pid), "the program died, so this test has shown nothing"
    subprocess.run(["fsfreeze", "-u", frozen], check=True)
    os.waitpid(pid, 0)
    assert not alive(pid)
