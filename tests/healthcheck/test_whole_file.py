"""A small file is replaced whole or not at all."""

import fcntl
import multiprocessing
import os

import pytest

from healthcheck.whole_file import write_whole


def test_the_content_and_the_mode_are_as_asked_whatever_the_umask(tmp_path):
    path = tmp_path / "state.json"
    before = os.umask(0o777)
    try:
        write_whole(str(path), b"one", mode=0o640)
        write_whole(str(path), b"two", mode=0o640, durable=True)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_draft_that_a_killed_writer_left_is_written_over(tmp_path):
    (tmp_path / ".state.json.draft").write_bytes(b"half of something much longer")
    write_whole(str(tmp_path / "state.json"), b"whole")
    assert (tmp_path / "state.json").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["state.json"]


@pytest.mark.parametrize("lay", ["link", "hard link", "fifo", "folder"])
def test_something_else_in_the_drafts_place_is_not_written_to(lay, tmp_path):
    target, draft = tmp_path / "precious", tmp_path / ".state.json.draft"
    target.write_text("precious")
    if lay == "link":
        draft.symlink_to(target)
    elif lay == "hard link":
        os.link(target, draft)
    elif lay == "fifo":
        os.mkfifo(draft)
    else:
        draft.mkdir()
    with pytest.raises(OSError):
        write_whole(str(tmp_path / "state.json"), b"ours")
    assert target.read_text() == "precious"
    assert not (tmp_path / "state.json").exists()


def test_a_writer_that_holds_the_draft_is_not_waited_for_for_ever(tmp_path):
    with open(tmp_path / ".state.json.draft", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            write_whole(str(tmp_path / "state.json"), b"ours")


def test_a_full_disk_leaves_the_old_content_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    write_whole(str(path), b"old")

    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.json"]


def _write_many(path, letter):
    for _ in range(200):
        try:
            write_whole(path, letter * 5000)
        except BlockingIOError:
            continue


def test_many_writers_at_once_never_mix_their_contents(tmp_path):
    path = str(tmp_path / "state.json")
    write_whole(path, b"a" * 5000)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(path, bytes([c]))) for c in b"abcd"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        with open(path, "rb") as file:
            seen = file.read()
        assert len(seen) == 5000 and len(set(seen)) == 1
    assert all(writer.exitcode == 0 for writer in writers)
