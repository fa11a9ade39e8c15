"""Outcomes of the attempts to send messages, and the index of the messages that wait by age."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
oldest_code = "0003"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Add the columns and the index."""
    op.add_column("deliveries", sa.Column("last_status", sa.Integer))
    op.add_column("deliveries", sa.Column("attempted_at", _INSTANT))
    waits = sa.text("next_at IS NOT NULL")
    op.create_index(
        "deliveries_waiting",
        "deliveries",
        ["created_at"],
        sqlite_where=waits,
        postgresql_where=waits,
    )
