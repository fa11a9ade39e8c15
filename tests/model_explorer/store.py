"""The real store in memory, under a virtual clock, whose rows can be captured and loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Table, create_engine, event
from sqlalchemy.pool import StaticPool

from headrace.store import tables  # noqa: F401 - they register
from headrace.store.clock import CLOCK_FUNCTION, Instant
from headrace.store.database import Database, Tx, WriterQueue
from headrace.store.tables import events, metadata

Rows = tuple[tuple[tuple[Any, ...], ...], ...]
"""The rows of the captured tables, in the order of TABLES."""

TABLES = [
    metadata.tables[name]
    for name in (
        *("nodes", "sessions", "snapshots", "statements"),
        *("transactions", "pending_hook_calls", "results"),
    )
]
MORE_TABLES = [
    metadata.tables[name]
    for name in (
        *("stream_queries", "stream_progress", "materialized_views", "catalog_intents"),
        *("job_tasks", "table_writes"),
    )
]
"""Tables that only some scenarios use."""
# Times that no rule of the protocol reads. Two states that differ only in these are equal.
_UNREAD_TIMES = {
    *("created_at", "started_at", "launched_at", "ended_at", "last_used_at", "last_update_time"),
    *("taken_at", "expires_at", "gone_at", "cancel_requested_at"),
    *("healthy_since", "began_at", "fresh_as_of"),
}
_UNREAD = {"token_hash", "driver", "data", "spark_schema", "failure", "snapshot", "staged"}


class MemoryStore(Database):
    """A store with one connection. Transactions are savepoints, so that a step can be undone."""

    def __init__(self, *, more_tables: bool = False) -> None:
        self._tables = [*TABLES, *MORE_TABLES] if more_tables else TABLES
        engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"isolation_level": None, "check_same_thread": False},
        )
        event.listen(engine, "connect", self._register_clock)
        super().__init__("sqlite", engine, engine, queue=WriterQueue(), write_seconds=5.0)
        self.now = 0.0
        """The time of the database, in seconds."""
        self.enter: Any = None
        """Decides what happens at the begin of a transaction (see steps.py)."""
        self._connection: Connection = engine.connect()
        metadata.create_all(self._connection)
        self._connection.commit()
        self._sqlite: Any = self._connection.connection.dbapi_connection
        self._sqlite.execute("BEGIN")
        self._tx = Tx(self._connection, "sqlite")
        self._depth = 0

    @contextmanager
    def read(self) -> Iterator[Tx]:
        with self.enter("read"):
            yield self._tx

    @contextmanager
    def write(self, name: str, **_precedence: object) -> Iterator[Tx]:
        with self.enter(name):
            yield self._tx

    def migrate(self) -> None:
        """Do nothing: the tables exist."""

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo everything that the block changes."""
        self._depth += 1
        name = f"undone_{self._depth}"
        self._sqlite.execute(f"SAVEPOINT {name}")
        try:
            yield
        finally:
            self._sqlite.execute(f"ROLLBACK TO {name}")
            self._sqlite.execute(f"RELEASE {name}")
            self._depth -= 1

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Undo what the block changes if it raises an error."""
        self._depth += 1
        name = f"atomic_{self._depth}"
        self._sqlite.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            self._sqlite.execute(f"ROLLBACK TO {name}")
            raise
        finally:
            self._sqlite.execute(f"RELEASE {name}")
            self._depth -= 1

    def read_clock(self) -> float:
        """Return the time of the database, which is also that of the hosts."""
        return self.now

    def capture(self) -> Rows:
        """Return all rows, except those of the event log."""
        return tuple(
            tuple(self._sqlite.execute(f"SELECT * FROM {table.name} ORDER BY 1").fetchall())
            for table in self._tables
        )

    def load(self, rows: Rows) -> None:
        """Replace all rows, and empty the event log."""
        self._sqlite.execute("PRAGMA defer_foreign_keys = ON")
        self._sqlite.execute(f"DELETE FROM {events.name}")
        for table, table_rows in reversed(list(zip(self._tables, rows, strict=True))):
            self._sqlite.execute(f"DELETE FROM {table.name}")
            if table_rows:
                marks = ", ".join("?" * len(table_rows[0]))
                self._sqlite.executemany(f"INSERT INTO {table.name} VALUES ({marks})", table_rows)

    def new_events(self) -> list[tuple[str, str, str | None, str, str]]:
        """Return the events since the last load: entity, id, source, target, actor."""
        query = f"SELECT entity, entity_id, source, target, actor FROM {events.name} ORDER BY id"
        return list(self._sqlite.execute(query).fetchall())

    def value(self, query: str) -> Any:
        """Return the single value of a query, or None if it finds no row."""
        row = self._sqlite.execute(query).fetchone()
        return None if row is None else row[0]

    def make_id(self, prefix: str) -> str:
        """Return an id that is equal in equal states."""
        table = {"sq": "stream_queries", "mv": "materialized_views"}[prefix]
        return f"{prefix}_{self.value(f'SELECT count(*) FROM {table}') + 2:032}"

    def canonical(self, rows: Rows, now: float) -> tuple[Any, ...]:
        """Return what the protocol can read of these rows, with times relative to `now`."""
        return tuple(
            tuple(
                tuple(
                    _canonical_value(column, value, now)
                    for column, value in zip(table.columns, row, strict=True)
                    if column.name not in _UNREAD
                )
                for row in table_rows
            )
            for table, table_rows in zip(self._tables, rows, strict=True)
        )

    def _register_clock(self, connection: Any, _record: Any) -> None:
        connection.create_function(CLOCK_FUNCTION, 0, lambda: int(self.now * 1_000_000))


def tables_of(rows: Rows) -> list[Table]:
    """Return the tables of captured rows."""
    return [*TABLES, *MORE_TABLES][: len(rows)]


def _canonical_value(column: Any, value: Any, now: float) -> Any:
    if value is None or not isinstance(column.type, Instant):
        return value
    if column.name in _UNREAD_TIMES:
        return True
    return round(value / 1_000_000 - now, 3)
