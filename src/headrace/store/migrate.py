"""Upgrade of a database to this version's schema, and a new generation of events after a restore.

The steps of the upgrade are in migrations/versions/.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, Index, delete, insert, inspect, select, text
from sqlalchemy.schema import CreateIndex

from headrace.errors import SchemaTooNew
from headrace.store.clock import clock, read_clock
from headrace.store.tables import (
    event_generations,
    results,
    schema_support,
    statements,
    stream_queries,
)

# An arbitrary key that no other program is likely to use for an advisory lock.
_LOCK_KEY = 0x68656164

# Alembic keeps the running migration in module globals.
_alembic_lock = threading.Lock()

_SCRIPTS = Path(__file__).parent / "migrations"
_FIND_VERSION = text("SELECT version_num FROM alembic_version")


def upgrade(connection: Connection) -> bool:
    """Run the missing migration steps in the connection's transaction.

    Do nothing if a newer version has migrated the store and its schema supports this version.

    Returns:
        Whether the schema is that of this version.

    Raises:
        SchemaTooNew: A newer version has run a step that this version does not have.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    supported = sorted(file.name[:4] for file in _SCRIPTS.glob("versions/[0-9]*.py"))
    current = _find_version(connection)
    if current == supported[-1]:
        return True
    if current is not None and current not in supported:
        if _find_oldest_code(connection) in supported:
            return False
        raise SchemaTooNew(
            f"The store has schema version {current}. This Headrace supports "
            f"versions up to {supported[-1]}.",
            hint="Start the Headrace version that migrated the store, or a newer one.",
        )
    _run_steps(connection)
    return True


def _run_steps(connection: Connection) -> None:
    # Alembic takes a quarter of a second to import. A node with a current store does not need it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.attributes["connection"] = connection
    with _alembic_lock:
        command.upgrade(config, "head")
    head = ScriptDirectory.from_config(config).get_revision("head")
    connection.execute(delete(schema_support))
    connection.execute(insert(schema_support).values(oldest_code=head.module.oldest_code))


def _find_version(connection: Connection) -> str | None:
    """Return the version of the schema, which is the first four characters of its step's file."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(_FIND_VERSION)
    return version


def _find_oldest_code(connection: Connection) -> str | None:
    """Return the oldest schema version whose code can use the schema, if the store says so."""
    if not inspect(connection).has_table(schema_support.name):
        return None
    oldest: str | None = connection.scalar(select(schema_support.c.oldest_code))
    return oldest


LATE = {
    "statements_live_by_owner": statements,
    "statements_live_by_connection": statements,
    "statements_unsuccessful": statements,
    "stream_queries_failed": stream_queries,
    "statements_waiting": statements,
    "statements_slow": statements,
    "statements_slow_by_text": statements,
    "results_held": results,
    "results_stored": results,
}
"""Names of indexes that no migration creates, with their tables."""

# An arbitrary key that no other program is likely to use for an advisory lock.
_INDEX_LOCK_KEY = 0x68656165
# An interrupted CREATE INDEX CONCURRENTLY leaves an index that is not valid.
_INVALID = text("""
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE NOT i.indisvalid AND c.relname = ANY(:names)
      AND c.relnamespace = current_schema()::regnamespace
""")


def create_late_indexes(connection: Connection) -> None:
    """Create the missing indexes of a SQLite store."""
    for index in _find_missing(connection):
        connection.execute(CreateIndex(index))


def create_indexes_concurrently(connection: Connection) -> None:
    """Create the missing indexes of a PostgreSQL store, unless another node is creating them.

    Args:
        connection: A connection without a transaction. Closing it also closes its session.
    """
    # The session keeps its lock and its settings, so it must not return to the pool. Waiting for
    # the lock would block the other node: it waits for all snapshots, also that of the waiting one.
    connection.detach()
    if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _INDEX_LOCK_KEY}):
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


# initdb gives each server an identifier. A dump does not contain it. A physical copy keeps it: a
# server that is recovered to an earlier time numbers its next transactions again from there, but on
# a timeline of its own.
_SERVER = text(
    "SELECT system_identifier || '/' || timeline_id"
    " FROM pg_control_system(), pg_control_checkpoint()"
)
_LAST = (
    select(event_generations.c.generation, event_generations.c.server)
    .order_by(event_generations.c.generation.desc())
    .limit(1)
)
_BEGIN_OF_NUMBERS = datetime(2026, 1, 1, tzinfo=UTC)


def start_generation_if_restored(connection: Connection) -> None:
    """Start a new generation if another server wrote the last events; on SQLite, do nothing.

    A server numbers its transactions by itself. After a restore from a dump, the numbers in the
    restored events belong to another server. They must not be compared with those of new
    transactions.

    The caller holds the lock of the migration, so that no other node runs this at the same time.
    """
    if connection.dialect.name != "postgresql":
        return
    server = connection.execute(_SERVER).scalar_one()
    last = connection.execute(_LAST).one_or_none()
    if last is not None and last.server == server:
        return
    # Readers consider the earlier generations complete: nothing in them may commit after this.
    connection.execute(text("LOCK TABLE events IN EXCLUSIVE MODE"))
    generation = 1 if last is None else _next_number(connection, last.generation)
    row = insert(event_generations).values(generation=generation, server=server, began_at=clock())
    connection.execute(row)


def _next_number(connection: Connection, last: int) -> int:
    """Return the seconds since 2026 by the clock of the server, but more than `last`.

    If the number were that of the last generation plus one, two restores of one dump would have the
    same number. Readers of the first restored store would then miss events of the second.
    """
    now = read_clock(connection)
    return max(last + 1, int((now - _BEGIN_OF_NUMBERS).total_seconds()))
