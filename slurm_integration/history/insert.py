"""Events into the database, fast and each once."""

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.dialects import sqlite

from healthcheck.node_event import NodeEvent
from slurm_integration.history.schema import EVENTS, HistoryError
from slurm_integration.history.signals import signal_of

BATCH = 5000
DAY_S = 86_400


def insert_events(connection: Connection, events: Iterable[NodeEvent], source: str) -> int:
    """How many were new. Rows go straight to the driver: SQLAlchemy's dict a row costs more than
    SQLite does.
    """
    rows = (_row(one, source) for one in events)
    if connection.dialect.name == "sqlite":
        statement = sqlite.insert(EVENTS).on_conflict_do_nothing(index_elements=["id"])
        text = str(statement.compile(dialect=connection.dialect, column_keys=_COLUMNS))
        return sum(connection.exec_driver_sql(text, batch).rowcount for batch in _batches(rows))
    return _copy(connection, rows)


def _copy(connection: Connection, rows: Iterable[tuple[Any, ...]]) -> int:
    """PostgreSQL: COPY beside the table, then one INSERT, in an order in which two writers at the
    same time can't wait for each other.
    """
    quote = connection.dialect.identifier_preparer.quote
    columns = ", ".join(quote(name) for name in _COLUMNS)
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE incoming ON COMMIT DROP AS SELECT {columns} FROM events LIMIT 0"  # noqa: S608 - our own names
    )
    cursor = connection.connection.cursor()
    try:
        with cursor.copy(f"COPY incoming ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    except connection.dialect.loaded_dbapi.Error as error:
        raise HistoryError(f"PostgreSQL: {' '.join(str(error).split())[:300]}") from error
    done = connection.exec_driver_sql(
        f"INSERT INTO events ({columns}) SELECT {columns} FROM incoming ORDER BY id "  # noqa: S608
        "ON CONFLICT (id) DO NOTHING"
    )
    connection.exec_driver_sql("DROP TABLE incoming")
    return done.rowcount


_COLUMNS = [column.name for column in EVENTS.columns]
_DERIVED = ("day", "signal", "source")
_fields = attrgetter(*(name for name in _COLUMNS if name not in _DERIVED))
_PLACES = tuple(_COLUMNS.index(name) for name in _DERIVED)


def _row(one: NodeEvent, source: str) -> tuple[Any, ...]:
    """In the order of the table's columns."""
    row = list(_fields(one))
    for place, value in zip(_PLACES, (int(one.at // DAY_S), signal_of(one), source), strict=True):
        row.insert(place, value)
    return tuple(row)


Row = TypeVar("Row")


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, BATCH)):
        yield batch
