"""Webhooks of owners, and the outbox: messages that wait to be sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "webhooks",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("jobs", sa.JSON, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="webhooks_key"),
        sa.UniqueConstraint("owner", "name", name="webhooks_name"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", _ID, nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("next_at", _INSTANT),
        sa.Column("sent_at", _INSTANT),
        sa.Column("failed_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="deliveries_key"),
        sa.UniqueConstraint("kind", "subject", "endpoint", name="deliveries_subject"),
        sa.CheckConstraint(
            "(next_at IS NULL) = (sent_at IS NOT NULL OR failed_at IS NOT NULL)",
            name="deliveries_ended",
        ),
    )
    waits = sa.text("next_at IS NOT NULL")
    op.create_index(
        "deliveries_due", "deliveries", ["next_at"], sqlite_where=waits, postgresql_where=waits
    )
    op.create_index("deliveries_by_endpoint", "deliveries", ["endpoint", "id"])
    op.create_index("deliveries_by_age", "deliveries", ["created_at"])
