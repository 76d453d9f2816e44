"""The database: the same on SQLite and PostgreSQL."""

import os
import sqlite3
import threading

import msgspec
import pytest
from sqlalchemy import create_engine, text

from healthcheck.node_event import NodeEvent
from slurm_integration.history.insert import DAY_S
from slurm_integration.history.schema import STEPS, HistoryError
from slurm_integration.history.store import Store
from slurm_integration.history.store_rows import NodeRow, Tally

NOW = 1_790_000_000.0
FULL = NodeEvent(
    "f" * 32, NOW, "node01", "finding", "boot", "prolog", "h100-sxm", "no-go", "go", "gpu-ecc",
    "fail", "0000:b3:00.0", "ü – 3 errors", "replace", "drained", 79, 2**60, 2**40, 1000,
    "hardware/gpu-lost", 0.9, True, 512,
)  # fmt: skip


def event(number, kind="xid", node="node01", at=NOW, **fields):
    return NodeEvent(f"{number:032x}", at, node, kind, **fields)


def test_an_event_comes_back_as_it_went_in(store):
    assert store.add([FULL]) == 1
    assert store.events("node01") == [FULL]


def test_the_same_event_is_stored_once(store):
    assert store.add([event(1), event(2), event(1)]) == 2
    assert store.add([event(2), event(3)]) == 1
    assert len(store.events("node01")) == 3


def test_many_events_are_stored_in_batches(store):
    assert store.add(event(n) for n in range(12_345)) == 12_345
    assert store.add([event(n) for n in range(12_000, 13_000)]) == 655


def test_events_are_newest_first_and_bounded(store):
    store.add([event(n, at=NOW + n) for n in range(10)])
    assert [e.at - NOW for e in store.events("node01", limit=3)] == [9, 8, 7]
    assert len(store.events("node01", since=NOW + 8)) == 2
    assert store.events("node02") == []


def test_events_can_be_asked_for_by_kind(store):
    store.add([event(1), event(2, "drain")])
    assert [e.kind for e in store.events("node01", kinds=("drain",))] == ["drain"]


def test_tallies_count_events_and_days_of_each_signal(store):
    store.add(
        [
            event(1, code=79),
            event(2, code=48),
            event(3, code=79, at=NOW + DAY_S),
            event(4, code=13),
            event(5, "drain", outcome="drained"),
            event(6, "drain", outcome="dry-run"),
            event(7, code=79, at=NOW - 40 * DAY_S),
        ]
    )
    assert sorted(store.tallies(NOW - DAY_S), key=lambda t: t.signal) == [
        Tally("node01", "drain", 1, 1),
        Tally("node01", "xid", 3, 2),
    ]


def test_xids_are_told_most_frequent_first(store):
    store.add([event(n, code=79 if n else 48) for n in range(4)])
    store.add([event(9, code=13)])
    assert store.xids(["node01", "node02"], NOW - DAY_S) == {"node01": [79, 48]}
    assert store.xids([], 0) == {}


def test_a_failed_job_counts_once(store):
    store.add(
        [event(n, "job-failure", node=f"n{n}", job_id=7, klass="hardware/x") for n in range(3)]
    )
    assert store.job_failures(0) == 1


def test_events_and_the_way_on_are_stored_together(store):
    row = NodeRow("node01", "h100-sxm", NOW - 100, NOW, NOW - 60, NOW, "reported")
    assert store.collected([event(1)], row) == 1
    assert store.nodes() == {"node01": row}
    later = msgspec.structs.replace(row, answer="unreachable", detail="no route", lost=2)
    store.note(later)
    assert store.nodes() == {"node01": later}


def test_what_cannot_be_stored_moves_nothing_on(store):
    bad = event(1, message="x\0y") if "postgresql" in store.url else event(1, code=2**70)
    with pytest.raises((HistoryError, OverflowError)):
        store.collected([event(2), bad], NodeRow("node01", asked_from=NOW))
    assert store.nodes() == {}
    assert store.events("node01") == []


def test_old_events_are_forgotten(store):
    store.add([event(1, at=NOW - 100), event(2, at=NOW)])
    assert store.prune(NOW - 50) == 1
    assert [e.id for e in store.events("node01")] == [event(2).id]


def test_a_history_is_opened_again(url):
    with Store(url) as first:
        first.add([event(1)])
    with Store(url) as second:
        assert second.add([event(1), event(2)]) == 1


def test_two_writers_wait_for_each_other(url):
    Store(url).__exit__(None, None, None)
    news = []

    def write(offset):
        with Store(url) as store:
            news.append(sum(store.add([event(offset + n)]) for n in range(40)))

    threads = [threading.Thread(target=write, args=(n * 20,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(news) == 100


def test_a_new_database_can_be_opened_by_many_at_once(url):
    troubles = []

    def open_it():
        try:
            Store(url).__exit__(None, None, None)
        except HistoryError as error:
            troubles.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []


def test_a_reader_does_not_wait_for_a_writer(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    with Store(url) as store:
        store.add([event(1)])
        writer = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        with Store(url) as reader:
            assert len(reader.events("node01")) == 1
        writer.close()


def test_a_database_of_a_newer_release_is_left_alone(url):
    Store(url).__exit__(None, None, None)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE flightcheck_schema SET version = {len(STEPS) + 1}"))
    engine.dispose()
    with pytest.raises(HistoryError, match="newer flightcheck"):
        Store(url)


class TestBadDatabases:
    @pytest.mark.parametrize("bad", ["", "x", "mysql://u@h/d", "sqlite:////proc/nowhere/x.db"])
    def test_a_url_that_leads_nowhere_is_told(self, bad):
        with pytest.raises(HistoryError):
            Store(bad)

    def test_a_file_of_something_else_is_told_and_kept(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("not a database, and longer than a header of SQLite would be" * 20)
        with pytest.raises(HistoryError, match="not a database"):
            Store(f"sqlite:///{path}")
        assert path.read_text().startswith("not a database")

    def test_a_password_is_never_shown(self):
        pytest.importorskip("psycopg")
        with pytest.raises(HistoryError) as told:
            Store("postgresql://me:s3cret@127.0.0.1:1/x?connect_timeout=2")
        assert "s3cret" not in str(told.value)

    def test_other_users_cannot_read_it(self, tmp_path):
        with Store(f"sqlite:///{tmp_path}/new/history.db"):
            pass
        assert (tmp_path / "new").stat().st_mode & 0o077 == 0
        assert os.stat(tmp_path / "new/history.db").st_mode & 0o077 == 0

    def test_sqlite_writes_ahead(self, tmp_path):
        with Store(f"sqlite:///{tmp_path}/history.db"):
            pass
        connection = sqlite3.connect(tmp_path / "history.db")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()
