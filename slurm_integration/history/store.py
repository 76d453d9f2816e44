"""The database of the history. Everything SQL is in here.

SQLite in WAL mode (readers never wait for a collect), or PostgreSQL by URL. An event is stored
once, by its id, however often it comes.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from healthcheck.node_event import NodeEvent
from slurm_integration.history.insert import DAY_S, insert_events
from slurm_integration.history.schema import EVENTS, NODES, HistoryError, migrate, outdated
from slurm_integration.history.store_rows import NodeRow, Tally

BUSY_MS = 30_000
_FIELDS = NodeEvent.__struct_fields__


class Store:
    """An open history. A context manager; raises HistoryError for anything the database does."""

    def __init__(self, url: str) -> None:
        self.url = url
        with _told(url):
            self._engine = _engine(url)
            with self._engine.connect() as connection:
                old = outdated(connection)
            if old:
                with self._writing() as connection:
                    migrate(connection)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._engine.dispose()

    def add(self, events: Iterable[NodeEvent], source: str = "flightcheck") -> int:
        """Store events that are not there yet; how many those were."""
        with _told(self.url), self._writing() as connection:
            return insert_events(connection, events, source)

    def collected(self, events: Sequence[NodeEvent], node: NodeRow) -> int:
        """What one node handed out and where to go on, both or neither; how many were new."""
        with _told(self.url), self._writing() as connection:
            new = insert_events(connection, events, node.node)
            _upsert(connection, node)
            return new

    def note(self, node: NodeRow) -> None:
        """Keep how asking a node ended."""
        with _told(self.url), self._writing() as connection:
            _upsert(connection, node)

    def nodes(self) -> dict[str, NodeRow]:
        """Every node ever collected, by name."""
        rows = self._rows(select(NODES).order_by(NODES.c.node))
        return {row["node"]: NodeRow(**row) for row in rows}

    def events(
        self, node: str, since: float = 0.0, limit: int = 1000, kinds: Sequence[str] = ()
    ) -> list[NodeEvent]:
        """One node's latest events, newest first."""
        query = select(*(EVENTS.c[name] for name in _FIELDS)).where(
            EVENTS.c.node == node, EVENTS.c.at >= since
        )
        if kinds:
            query = query.where(EVENTS.c.kind.in_(kinds))
        newest = query.order_by(EVENTS.c.at.desc(), EVENTS.c.id.desc()).limit(limit)
        with _told(self.url), self._engine.connect() as connection:
            return [NodeEvent(*row) for row in connection.execute(newest)]

    def tallies(self, since: float) -> list[Tally]:
        """All signals of all nodes from the day of `since` on."""
        query = (
            select(
                EVENTS.c.node,
                EVENTS.c.signal,
                func.count().label("events"),
                func.count(EVENTS.c.day.distinct()).label("days"),
            )
            .where(EVENTS.c.signal.isnot(None), EVENTS.c.day >= int(since // DAY_S))
            .group_by(EVENTS.c.node, EVENTS.c.signal)
        )
        with _told(self.url), self._engine.connect() as connection:
            return [Tally(*row) for row in connection.execute(query)]

    def xids(self, nodes: Sequence[str], since: float) -> dict[str, list[int]]:
        """The codes of hardware Xids that a few nodes showed, most frequent first."""
        query = (
            select(EVENTS.c.node, EVENTS.c.code)
            .where(
                EVENTS.c.node.in_(nodes),
                EVENTS.c.signal == "xid",
                EVENTS.c.day >= int(since // DAY_S),
            )
            .group_by(EVENTS.c.node, EVENTS.c.code)
            .order_by(func.count().desc(), EVENTS.c.code)
        )
        found: dict[str, list[int]] = {}
        for row in self._rows(query):
            if row["code"] is not None:
                found.setdefault(row["node"], []).append(row["code"])
        return found

    def job_failures(self, since: float) -> int:
        """Failed jobs of any cause, whoever began them."""
        query = select(func.count(EVENTS.c.job_id.distinct())).where(
            EVENTS.c.kind == "job-failure", EVENTS.c.at >= since
        )
        with _told(self.url), self._engine.connect() as connection:
            return connection.execute(query).scalar() or 0

    def prune(self, before: float) -> int:
        """Forget events of before a time (unix seconds); how many those were."""
        with _told(self.url), self._writing() as connection:
            return int(connection.execute(EVENTS.delete().where(EVENTS.c.at < before)).rowcount)

    def _rows(self, query: Any) -> list[dict[str, Any]]:
        with _told(self.url), self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                # Otherwise two writers that both began by reading refuse each other.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            with connection.begin() if not connection.in_transaction() else _committing(connection):
                yield connection


@contextmanager
def _committing(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        return create_engine(parsed.set(drivername="postgresql+psycopg"))
    if parsed.get_backend_name() != "sqlite":
        raise HistoryError(
            f"expected sqlite:///PATH or postgresql://…, found {parsed.drivername}://…"
        )
    if parsed.database and parsed.database != ":memory:":
        folder = os.path.dirname(parsed.database) or "."
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # Users' names and jobs are in it.
        os.close(os.open(parsed.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    engine = create_engine(parsed)
    event.listen(engine, "connect", _tune)
    return engine


def _tune(connection: Any, _: object) -> None:
    """Write-ahead log, patience with other writers, and transactions that are ours to begin."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", f"busy_timeout={BUSY_MS}",
                   "cache_size=-65536", "temp_store=MEMORY"):  # fmt: skip
        connection.execute(f"PRAGMA {pragma}")


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Whatever the database does becomes a HistoryError without the password of its URL."""
    try:
        yield
    except (ArgumentError, NoSuchModuleError) as error:
        raise HistoryError(
            f"--db: expected sqlite:///PATH or postgresql://USER@HOST/NAME: {error}"
        ) from error
    except ModuleNotFoundError as error:
        raise HistoryError(
            f"PostgreSQL needs {error.name}: pip install 'flightcheck[fleet]'"
        ) from error
    except (SQLAlchemyError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        where = make_url(url).render_as_string(hide_password=True)
        raise HistoryError(f"{where}: {' '.join(str(cause).split())[:300]}") from error


def _upsert(connection: Connection, node: NodeRow) -> None:
    values = msgspec.structs.asdict(node)
    done = connection.execute(NODES.update().where(NODES.c.node == node.node).values(**values))
    if not done.rowcount:
        connection.execute(NODES.insert().values(**values))
