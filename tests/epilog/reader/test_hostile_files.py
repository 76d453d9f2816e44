"""Reading files that a user chose, as that user: what is not read, and what does not hold us."""

import mmap
import os
import pickle
import socket
import time
from pathlib import Path

import pytest

from epilog.reader import child as children
from epilog.reader.child import Reader, as_user
from epilog.reader.errand import Errand, Found

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user")
UID, OTHER = 23_456, 23_457
ERROR = "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: bad\n"


@pytest.fixture
def home(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, UID, UID)
    return home


def users_file(path: Path, data: bytes | str = ERROR, uid: int = UID, mode: int = 0o644) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def collect(*logs, seconds=20.0, **more) -> Found:
    return Reader(
        Errand(uid=UID, gid=UID, user=None, logs=tuple(map(str, logs)), seconds=seconds, **more)
    ).collect()


def notes(found: Found) -> str:
    return "\n".join((*found.notes, *found.scan.notes, *found.recorder.notes))


def test_a_users_own_log_is_read(home):
    found = collect(users_file(home / "slurm-1.out", mode=0o600))
    assert [e.text for e in found.scan.evidence] == ["[rank3]: ValueError: bad"]
    assert found.notes == ()


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/passwd", "/proc/version", "/proc/1/environ"])
def test_files_of_the_system_are_not_read(path):
    found = collect(path)
    assert "expected a file of the job's user, found one of uid 0" in notes(found)
    assert found.files == ()
    assert found.scan.bytes_read == 0


def test_another_users_file_is_not_read_even_if_all_may(home):
    path = users_file(home / "theirs.log", uid=OTHER)
    assert f"found one of uid {OTHER}" in notes(collect(path))


def test_a_hard_link_to_another_users_file_is_not_read(home, tmp_path):
    theirs = users_file(tmp_path / "theirs", uid=OTHER)
    os.link(theirs, home / "mine.log")
    assert f"found one of uid {OTHER}" in notes(collect(home / "mine.log"))


def link(home):
    users_file(home / "real")
    (home / "log").symlink_to(home / "real")


def fifo(home):
    os.mkfifo(home / "log")
    os.chown(home / "log", UID, UID)


def device(home):
    os.mknod(home / "log", 0o666 | 0o020000, os.makedev(1, 5))
    os.chown(home / "log", UID, UID)


def unix_socket(home):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(home / "log"))
    os.chown(home / "log", UID, UID)


def folder(home):
    (home / "log").mkdir()
    os.chown(home / "log", UID, UID)


@pytest.mark.parametrize(
    ("make", "word"),
    [(link, "a link"), (fifo, "a FIFO"), (device, "a device"), (unix_socket, "a socket"),
     (folder, "a folder")],
)  # fmt: skip
def test_only_regular_files_are_read_and_nothing_holds_us(home, make, word):
    try:
        make(home)
    except PermissionError:
        pytest.skip("this container may not make one")
    found = collect(home / "log")
    assert f"expected a regular file, found {word}" in notes(found)
    assert "too long" not in notes(found)


def test_a_missing_log_is_said(home):
    assert "none.out: not read: No such file" in notes(collect(home / "none.out"))
    assert "none-*.out: no such file" in notes(collect(home / "none-*.out"))


def test_a_folder_closed_to_the_user_is_closed_to_us(tmp_path, home):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    users_file(closed / "log")
    assert "not read: Permission denied" in notes(collect(closed / "log"))


def test_a_large_sparse_log_is_read_at_both_ends_and_the_cut_is_said(home):
    path = users_file(home / "big.log", b"")
    with path.open("r+b") as file:
        file.truncate(8 << 30)
        file.seek(8 << 30)
        file.write(b"\n" + ERROR.encode())
    found = collect(path, max_log=4 << 20)
    assert "of its middle left out" in notes(found)
    assert [e.text for e in found.scan.evidence] == ["[rank3]: ValueError: bad"]
    assert found.scan.bytes_read < 5 << 20


def test_binary_and_a_line_without_end_are_read_through(home):
    data = os.urandom(1 << 20) + b"x" * (6 << 20) + b"\n" + ERROR.encode() + bytes(range(256)) * 99
    found = collect(users_file(home / "odd.log", data))
    assert [e.text for e in found.scan.evidence] == ["[rank3]: ValueError: bad"]


def test_per_task_files_tell_task_and_node(home):
    for task, text in ((0, "fine\n"), (7, "ValueError: bad\n")):
        users_file(home / f"log-n{task}-{task}", "Traceback (most recent call last):\n" + text)
    found = collect(home / "log-*-*", patterns=(f"{home}/log-%N-%t",))
    (seen,) = [e for e in found.scan.evidence if "ValueError" in e.text]
    assert (seen.label, seen.host) == (7, "n7")


def test_more_logs_than_a_process_may_open_are_all_read(home):
    for task in range(700):
        users_file(home / f"t{task}", ERROR if task == 699 else "ok\n")
    found = collect(home / "t*")
    assert len(found.files) == 700
    assert len(found.scan.evidence) == 1
    assert found.scan.notes == ()


def test_dumps_that_run_code_are_refused_and_sparse_ones_too(home):
    mark = home / "ran"

    class Runs:
        def __reduce__(self):
            return os.system, (f"touch {mark}",)

    users_file(home / "fr_0", pickle.dumps({"entries": [Runs()]}, 2))
    with users_file(home / "fr_1", b"\x80").open("r+b") as file:
        file.truncate(10 << 30)
    users_file(home / "fr_2", pickle.dumps({"entries": [], "version": "2.10"}, 2), uid=OTHER)
    found = collect(recorder=(f"{home}/fr_*",))
    assert "could run code" in notes(found)
    assert "larger than 64 MiB" in notes(found)
    assert found.recorder.works == ()
    assert not mark.exists()


def test_files_older_than_the_job_belong_to_another(home):
    old = users_file(home / "fr_0", b"junk")
    os.utime(old, (1, 1))
    users_file(home / "fr_1", b"junk")
    found = collect(recorder=(f"{home}/fr_*",), since=time.time())
    assert "fr_1" in notes(found)
    assert "fr_0" not in notes(found)


def test_torchrun_error_files_name_worker_and_time(home):
    place = home / "run" / "attempt_1" / "3"
    place.mkdir(parents=True)
    (home / "run" / "attempt_0" / "5").mkdir(parents=True)
    text = (
        '{"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": '
        '"Traceback (most recent call last):\\n  File \\"a.py\\", line 1\\nValueError: bad\\n", '
        '"timestamp": "1796098259"}}}'
    )
    users_file(place / "error.json", text)
    users_file(home / "run" / "attempt_0" / "5" / "error.json", text)
    found = collect(error_files=(f"{home}/run/attempt_*/*/error.json",), node="n1")
    (seen,) = found.scan.evidence
    assert (seen.local_rank, seen.host, seen.at) == (3, "n1", 1796098259.0)
    assert "ValueError: bad" in seen.text


def rights(errand, notes, deadline):
    """What the child can still do."""
    said = [str(os.getresuid()), str(os.getresgid()), str(os.getgroups()), os.getcwd()]
    status = Path("/proc/self/status").read_text()
    said += [line for line in status.splitlines() if line.startswith(("CapEff", "CapPrm", "NoNew"))]
    said.append(str(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))))
    secret = "/etc/shadow"
    acts = (lambda: os.setuid(0), lambda: os.seteuid(0), lambda: os.open(secret, os.O_RDONLY))
    for act in acts:
        try:
            act()
            said.append("DID IT")
        except OSError:
            pass
    yield Found(notes=tuple(said))


def test_the_child_has_no_rights_left_and_no_way_back():
    secret = os.open("/etc/shadow", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        found = Reader(Errand(uid=UID, gid=UID, user=None, seconds=10), rights).collect()
    finally:
        os.close(secret)
    uids, gids, groups, folder, *status, fds = found.notes
    assert uids == str((UID, UID, UID))
    assert gids == str((UID, UID, UID))
    assert groups == str([UID])
    assert folder == "/"
    assert "NoNewPrivs:\t1" in status
    assert all(line.endswith("0000000000000000") for line in status if line.startswith("Cap"))
    assert "DID IT" not in found.notes
    assert len(fds.split(",")) <= 5


def hangs(errand, notes, deadline):
    yield Found(notes=("first",))
    while True:
        time.sleep(1)


def eats(errand, notes, deadline):
    yield Found(notes=("first",))
    hoard = []
    while True:
        hoard.append(mmap.mmap(-1, 900 << 20))


def spins(errand, notes, deadline):
    yield Found(notes=("first",))
    while True:
        pass


def dies(errand, notes, deadline):
    yield Found(notes=("first",))
    os.kill(os.getpid(), 11)


def writes(errand, notes, deadline):
    with open("/tmp/flightcheck-must-not-be", "wb") as file:
        file.write(b"x")
    yield Found()


@pytest.mark.parametrize(
    ("work", "word"),
    [(hangs, "took too long"), (eats, "broke: OSError"), (dies, "broke off"), (spins, "too long")],
)
def test_whatever_happens_to_the_child_what_it_brought_counts(work, word):
    started = time.monotonic()
    found = Reader(Errand(uid=UID, gid=UID, user=None, seconds=3), work).collect()
    assert found.notes[0] == "first"
    assert word in " ".join(found.notes)
    assert time.monotonic() - started < 240


def test_what_was_brought_in_time_counts_however_late_it_is_fetched():
    def work(errand, notes, deadline):
        yield Found(notes=("first",))

    reader = Reader(Errand(uid=UID, gid=UID, user=None, seconds=2), work)
    os.waitid(os.P_PID, reader._pid, os.WEXITED | os.WNOWAIT)
    time.sleep(2.1)
    assert reader.collect().notes == ("first",)


def test_the_child_cannot_write_files():
    path = Path("/tmp/flightcheck-must-not-be")
    try:
        Reader(Errand(uid=UID, gid=UID, user=None, seconds=5), writes).collect()
        assert not path.exists() or path.stat().st_size == 0
    finally:
        path.unlink(missing_ok=True)


def test_an_answer_that_is_no_answer_is_said_and_nothing_breaks():
    pack = children._LENGTH.pack
    for data in (b"", b"\x01", pack(10) + b"abc", pack(3) + b"abc" + pack(0), pack(2**63)):
        parts, _, whole = children._parts(data)
        assert parts == []
        assert not whole


def test_a_file_is_written_as_the_user_and_never_over_or_through_one(home):
    path = home / "flightcheck-1.txt"

    def write():
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        os.write(fd, b"told")

    assert as_user(UID, UID, None, 5, write)
    assert path.stat().st_uid == UID
    assert not as_user(UID, UID, None, 5, write)
    assert not as_user(OTHER, OTHER, None, 5, lambda: os.unlink(path))
    assert not as_user(UID, UID, None, 0.3, lambda: time.sleep(60))


def test_a_name_that_is_no_text_hides_no_log(home):
    """A file may be called anything; msgpack and JSON carry no halves of characters."""
    name = os.fsencode(home) + b"/slurm-\xff-0.out"
    Path(os.fsdecode(name)).write_bytes(ERROR.encode())
    os.chown(name, UID, UID)
    found = collect(f"{home}/slurm-*-0.out")
    assert [one.path for one in found.files] == [f"{home}/slurm-\ufffd-0.out"]
    assert [e.text for e in found.scan.evidence] == ["[rank3]: ValueError: bad"]
