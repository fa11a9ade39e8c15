"""Entry point of Alembic; headrace.store.migrate passes an open transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
