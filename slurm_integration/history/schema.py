"""The tables of the history, and how an older database becomes today's.

Plain columns that SQLite and PostgreSQL both have. A release that changes them adds a step to
STEPS; steps are never edited.
"""

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    inspect,
    select,
)


class HistoryError(Exception):
    """The database cannot be used; the text says what was expected, found and what to do."""


METADATA = MetaData()

META = Table("flightcheck_schema", METADATA, Column("version", Integer, primary_key=True))

EVENTS = Table(
    "events",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("node", String(255), nullable=False),
    Column("at", Float(53), nullable=False),
    Column("day", Integer, nullable=False),
    Column("kind", String(32), nullable=False),
    # What the event says about its node's worth, in one word; see signals.py. None: nothing.
    Column("signal", String(450)),
    Column("boot_id", String(400)),
    Column("stage", String(400)),
    Column("profile", String(400)),
    Column("verdict", String(400)),
    Column("before", String(400)),
    Column("check", String(400)),
    Column("severity", String(400)),
    Column("subject", String(400)),
    Column("message", String(400)),
    Column("action", String(400)),
    Column("outcome", String(400)),
    Column("code", BigInteger),
    Column("count", BigInteger, nullable=False),
    Column("job_id", BigInteger),
    Column("uid", BigInteger),
    Column("klass", String(400)),
    Column("confidence", Float(53)),
    Column("root", Boolean, nullable=False),
    Column("nodes", BigInteger),
    Column("source", String(255), nullable=False),
)
"""One row an event of healthcheck.node_event. `day`: days since 1970 (UTC). `source`: the node
that told it, or `flightcheck` for what an admin host did."""

Index("events_of_a_node", EVENTS.c.node, EVENTS.c.at)
# Answers lemons and stats without touching the table.
Index(
    "events_signals",
    EVENTS.c.node,
    EVENTS.c.signal,
    EVENTS.c.day,
    sqlite_where=EVENTS.c.signal.isnot(None),
    postgresql_where=EVENTS.c.signal.isnot(None),
)

NODES = Table(
    "nodes",
    METADATA,
    Column("node", String(255), primary_key=True),
    Column("profile", String(400)),
    Column("first_at", Float(53)),
    Column("last_at", Float(53)),
    Column("asked_from", Float(53), nullable=False, server_default="0"),
    Column("tried_at", Float(53)),
    Column("answer", String(40)),
    Column("detail", String(400)),
    Column("lost", Integer, nullable=False, server_default="0"),
)
"""One row a node. Known from `first_at` to `last_at` (the exposure that rates need). `asked_from`:
the time, by the node's clock, that the next collect asks from. `answer` and `detail`: how the
last collect ended, at `tried_at`. `lost`: how often the node had dropped events before."""


def _create(connection: Connection) -> None:
    METADATA.create_all(connection)


STEPS: tuple[Callable[[Connection], None], ...] = (_create,)
"""STEPS[n] makes version n + 1 out of version n."""


def outdated(connection: Connection) -> bool:
    """Whether `migrate` has something to do. HistoryError for a database of a newer release."""
    version = _version(connection)
    if version > len(STEPS):
        raise HistoryError(
            f"the database has schema {version}, this flightcheck knows up to {len(STEPS)}: "
            "use the newer flightcheck that made it"
        )
    return version < len(STEPS)


def migrate(connection: Connection) -> None:
    """Bring the database to today's schema, in one transaction of the caller's."""
    if connection.dialect.name == "postgresql":
        # Two that open a new database at the same time would both create its tables.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(4711)")
    version = _version(connection)
    for step in STEPS[version:]:
        step(connection)
    if version < len(STEPS):
        connection.execute(META.delete())
        connection.execute(META.insert().values(version=len(STEPS)))


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table(META.name):
        return 0
    return connection.execute(select(META.c.version)).scalar() or 0
