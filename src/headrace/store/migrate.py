"""Upgrade of a database to this version's schema; the steps are in migrations/versions/."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, delete, insert, inspect, select, text

from headrace.errors import SchemaTooNew
from headrace.store.tables import schema_support

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
