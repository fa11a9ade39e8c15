"""Brings a database to this version's schema; the steps are in migrations/versions/."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from headrace.errors import SchemaTooNew

# Any number that no other program is likely to lock.
_LOCK = 0x68656164

# Alembic keeps the migration that is running in module globals.
_one_at_a_time = threading.Lock()


def upgrade(connection: Connection) -> None:
    """Run what is missing, in the connection's transaction. Raises SchemaTooNew."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    present = set(MigrationContext.configure(connection).get_current_heads())
    if unknown := present - known:
        raise SchemaTooNew(
            f"The store has the schema {', '.join(sorted(unknown))}, which this Headrace does not "
            f"know (it knows up to {scripts.get_current_head()}).",
            hint="Start the Headrace that migrated it, or a newer one.",
        )
    if present != set(scripts.get_heads()):
        with _one_at_a_time:
            command.upgrade(config, "head")
