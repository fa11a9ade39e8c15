"""What Alembic runs to migrate; headrace.store.migrate hands it an open transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
