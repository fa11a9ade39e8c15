"""Upgrade of a database to this version's schema; the steps are in migrations/versions/."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, delete, insert, inspect, select, text

from headrace.errors import SchemaTooNew
from headrace.store.tables import schema_support

# An arbitrary key that no other program is likely to use for an advisory lock.
_LOCK_KEY = 0x68656164

# Alembic keeps the running migration in module globals.
_alembic_lock = threading.Lock()


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
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    supported = {script.revision for script in scripts.walk_revisions()}
    current = set(MigrationContext.configure(connection).get_current_heads())
    unknown = current - supported
    if unknown and _find_oldest_code(connection) in supported:
        return False
    if unknown:
        raise SchemaTooNew(
            f"The store has schema version {', '.join(sorted(unknown))}. This Headrace supports "
            f"versions up to {scripts.get_current_head()}.",
            hint="Start the Headrace version that migrated the store, or a newer one.",
        )
    if current != set(scripts.get_heads()):
        with _alembic_lock:
            command.upgrade(config, "head")
        head = scripts.get_revision("head")
        connection.execute(delete(schema_support))
        connection.execute(insert(schema_support).values(oldest_code=head.module.oldest_code))
    return True


def _find_oldest_code(connection: Connection) -> str | None:
    """Return the oldest schema version whose code can use the schema, if the store says so."""
    if not inspect(connection).has_table(schema_support.name):
        return None
    oldest: str | None = connection.scalar(select(schema_support.c.oldest_code))
    return oldest
