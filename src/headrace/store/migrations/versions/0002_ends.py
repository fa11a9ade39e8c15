"""What ends by itself: idle and aged sessions, statements out of time; and why one is cancelled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    for column in (
        sa.Column("idle_seconds", sa.Float),
        sa.Column("ttl_seconds", sa.Float),
        sa.Column("streams", sa.Integer, nullable=False, server_default="0"),
        sa.Column("last_used_at", _INSTANT),
    ):
        op.add_column("sessions", column)
    for column in (
        sa.Column("timeout_seconds", sa.Float),
        sa.Column("queue_seconds", sa.Float),
        sa.Column("cancel_reason", sa.String(16)),
        sa.Column("cancel_forced", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("cancel_note", sa.Text),
    ):
        op.add_column("statements", column)
    timed = sa.text(
        "ended_at IS NULL AND (timeout_seconds IS NOT NULL OR queue_seconds IS NOT NULL)"
    )
    op.create_index(
        "statements_timed", "statements", ["id"], sqlite_where=timed, postgresql_where=timed
    )
