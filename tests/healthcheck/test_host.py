"""The door to a machine: files, the recorded answers, and the machine we run on."""

import json
import os
from pathlib import Path

import pytest

from healthcheck.host import LocalHost, RecordedHost, host_at, recorded


def answers(root: Path, **values: object) -> RecordedHost:
    (root / "host.json").write_text(json.dumps(values))
    return RecordedHost(str(root))


def test_reading_is_bounded_and_stripped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"  abc\xff" + b"x" * 100_000)
    host = RecordedHost(str(tmp_path))
    assert host.read_bytes("/file", 4) == b"  ab"
    assert len(host.read_bytes("/file")) == 65_536
    assert host.read_text("/file", 6) == "abc\ufffd"


def test_a_fifo_in_place_of_a_file_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert RecordedHost(str(tmp_path)).read_bytes("/fifo") == b""


def test_a_missing_file_and_a_directory_are_os_errors(tmp_path: Path) -> None:
    host = RecordedHost(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        host.read_text("/none")
    with pytest.raises(IsADirectoryError):
        host.read_text("/")


def test_directories_are_sorted(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).mkdir()
    assert RecordedHost(str(tmp_path)).list_dir("/") == ["a", "b", "c"]


def test_a_real_path_is_named_as_the_machine_would(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/x").mkdir(parents=True)
    (tmp_path / "sys/class").mkdir()
    (tmp_path / "sys/class/link").symlink_to("../devices/x")
    host = RecordedHost(str(tmp_path))
    assert host.real_path("/sys/class/link") == "/sys/devices/x"
    assert host.real_path("/") == "/"


def test_the_longest_recorded_prefix_answers_for_space(tmp_path: Path) -> None:
    figures = {"size_bytes": 10, "free_bytes": 5}
    host = answers(tmp_path, space={"/": figures, "/data": "stale", "/dat": "io"})
    assert host.space("/datas")[:2] == (10, 5)
    with pytest.raises(OSError, match=os.strerror(116)):
        host.space("/data/x")
    with pytest.raises(FileNotFoundError):
        answers(tmp_path, space={"/data": figures}).space("/other")


def test_the_recorded_clock(tmp_path: Path) -> None:
    host = answers(tmp_path, clock={"synchronised": False, "maximum_error_s": 16.0})
    assert host.clock()[:3] == (False, 0.0, 16.0)
    with pytest.raises(FileNotFoundError):
        answers(tmp_path).clock()


def test_recorded_commands(tmp_path: Path) -> None:
    host = answers(tmp_path, commands={"tool -x y": {"code": 2, "stderr": "no"}})
    assert host.run(["tool", "-x", "y"], 1.0) == (2, "", "no")
    with pytest.raises(FileNotFoundError):
        host.run(["tool"], 1.0)


def test_an_odd_answers_file_is_an_empty_one(tmp_path: Path) -> None:
    for content in ("", "[1]", "{", "\x00"):
        (tmp_path / "host.json").write_text(content)
        with pytest.raises(FileNotFoundError):
            RecordedHost(str(tmp_path)).run(["tool"], 1.0)


def test_the_recorded_kernel_log(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"6,0,1,-;one\n6,1,2,-;two\n")
    records = list(RecordedHost(str(tmp_path)).kernel_records(0))
    assert records == [b"6,0,1,-;one", b"6,1,2,-;two"]


def test_a_recorded_machine_without_nvml_never_uses_ours(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="libnvidia-ml"):
        RecordedHost(str(tmp_path)).nvml()


def test_a_recorded_machine_has_its_recorded_name_or_its_folders(tmp_path: Path) -> None:
    assert answers(tmp_path, node="node7").node_name() == "node7"
    assert answers(tmp_path).node_name() == tmp_path.name


def test_which_host_a_root_means(tmp_path: Path) -> None:
    for root in (None, "", "/"):
        assert not recorded(host_at(root))
    assert recorded(host_at(str(tmp_path)))


def test_this_machine_answers() -> None:
    host = LocalHost()
    space = host.space("/")
    assert 0 < space.free_bytes <= space.size_bytes
    clock = host.clock()
    assert 0 <= clock.maximum_error_s <= 16.0
    assert abs(clock.offset_s) < 1.0
    assert host.run(["/bin/echo", "x"], 60.0) == (0, "x\n", "")
    assert host.exists("/proc/self") and not host.exists("/no/such")
    assert host.node_name() and "." not in host.node_name()
