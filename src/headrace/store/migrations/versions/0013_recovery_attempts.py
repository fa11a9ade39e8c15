"""Attempts to resolve an orphaned table transaction are counted, and repeated with backoff."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from headrace.store.clock import Instant

revision = "0013"
down_revision = "0012"
oldest_code = "0004"


def upgrade() -> None:
    """Add the columns. A node that does not know them repeats an attempt without a pause."""
    attempts = sa.Column("attempts", sa.Integer, nullable=False, server_default="0")
    op.add_column("transactions", attempts)
    op.add_column("transactions", sa.Column("retry_at", Instant))
    op.add_column("transactions", sa.Column("last_error", sa.Text))
