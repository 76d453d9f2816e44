"""The file of suspicions survives whatever is done to it."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epilog.decide import store
from epilog.decide.suspicions import Suspicion, about, added, cleared


def one(job: int, node: str = "gpu01", at: float = 1.0) -> Suspicion:
    return Suspicion(node, "hardware/gpu-ecc", job, 1000 + job, at)


def put(folder: Path, *fresh: Suspicion) -> tuple[tuple[Suspicion, ...], str | None]:
    return store.update(str(folder), lambda old: added(old, fresh, store.MOST))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    put(tmp_path / "state", one(1))
    put(tmp_path / "state", one(2))
    kept, note = store.load(str(tmp_path / "state"))
    assert note is None
    assert [s.job_id for s in kept] == [1, 2]
    assert os.stat(tmp_path / "state" / store.FILE).st_mode & 0o077 == 0


def test_nothing_there_is_nothing_suspected(tmp_path: Path) -> None:
    assert store.load(str(tmp_path)) == ((), None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":9,"suspicions":[]}',
        b"\xff\xfe",
        b" " * (store.MOST_BYTES + 5),
    ],
)
def test_a_broken_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / store.FILE).write_bytes(content)
    kept, note = store.load(str(tmp_path))
    assert kept == ()
    assert note is not None and "set aside" in note
    assert (tmp_path / f"{store.FILE}.set-aside").read_bytes() == content
    assert put(tmp_path, one(1))[0] == (one(1),)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text('{"version":1,"suspicions":[]}')
    (tmp_path / store.FILE).symlink_to(tmp_path / "real")
    kept, note = store.load(str(tmp_path))
    assert kept == ()
    assert note is not None


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / store.FILE)
    assert store.load(str(tmp_path))[0] == ()


def test_it_stays_bounded(tmp_path: Path) -> None:
    kept, note = put(tmp_path, *(one(n, at=float(n)) for n in range(store.MOST + 50)))
    assert note is None
    assert len(kept) == store.MOST
    assert kept[-1].job_id == store.MOST + 49


def test_epilogs_that_meet_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: put(tmp_path, one(n)), range(40)))
    assert len(store.load(str(tmp_path))[0]) == 40


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept, note = put(tmp_path / "file" / "state", one(1))
    assert kept == ()
    assert note is not None and "lost" in note


def test_the_next_prolog_sees_what_is_said_of_its_node_until_it_is_cleared() -> None:
    kept = (one(1), one(2, "gpu02"))
    assert about("gpu01", kept, 10.0, 100.0) == [one(1)]
    assert about("gpu01", kept, 200.0, 100.0) == []
    assert cleared(kept, "gpu01") == (one(2, "gpu02"),)


def test_one_job_suspects_a_node_once() -> None:
    assert added((one(1, at=1.0),), [one(1, at=5.0)], 8) == (one(1, at=5.0),)
