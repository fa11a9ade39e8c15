"""Indexes that a node creates after the migration, so that the other nodes can write meanwhile.

A table of a running cluster may have millions of rows. PostgreSQL's CREATE INDEX blocks the writers
of the table; CREATE INDEX CONCURRENTLY does not, but it cannot run inside a transaction.
"""

from __future__ import annotations

from sqlalchemy import Connection, Index, inspect, text
from sqlalchemy.schema import CreateIndex

from headrace.store.tables import results, statements

LATE = {
    "statements_live_by_owner": statements,
    "statements_waiting": statements,
    "statements_slow": statements,
    "results_held": results,
}
"""Names of indexes that no migration creates, with their tables."""

# An arbitrary key that no other program is likely to use for an advisory lock.
_LOCK_KEY = 0x68656165
# An interrupted CREATE INDEX CONCURRENTLY leaves an index that is not valid.
_INVALID = text("""
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE NOT i.indisvalid AND c.relname = ANY(:names)
      AND c.relnamespace = current_schema()::regnamespace
""")


def create(connection: Connection) -> None:
    """Create the missing indexes of a SQLite store."""
    for index in _find_missing(connection):
        connection.execute(CreateIndex(index))


def create_concurrently(connection: Connection) -> None:
    """Create the missing indexes of a PostgreSQL store, unless another node is creating them.

    Args:
        connection: A connection without a transaction. Closing it also closes its session.
    """
    # The session keeps its lock and its settings, so it must not return to the pool. Waiting for
    # the lock would block the other node: it waits for all snapshots, also that of the waiting one.
    connection.detach()
    if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK_KEY}):
        return
    connection.execute(text("SET statement_timeout = 0"))
    connection.execute(text("SET lock_timeout = 0"))
    for name in connection.scalars(_INVALID, {"names": list(LATE)}).all():
        connection.execute(text(f'DROP INDEX CONCURRENTLY "{name}"'))
    for index in _find_missing(connection):
        statement = str(CreateIndex(index).compile(connection))
        connection.execute(text(statement.replace("INDEX", "INDEX CONCURRENTLY", 1)))


def _find_missing(connection: Connection) -> list[Index]:
    inspector = inspect(connection)
    present = {
        index["name"] for table in set(LATE.values()) for index in inspector.get_indexes(table.name)
    }
    return [
        index
        for name, table in LATE.items()
        for index in table.indexes
        if index.name == name and name not in present
    ]
