"""Sessions that outlive their drivers: takeovers, starts, snapshots; statements run again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    for column in (
        sa.Column("parallelism", sa.Integer, nullable=False, server_default="1"),
        sa.Column("warm", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("starts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("fenced_driver", sa.JSON),
        sa.Column("lost", sa.JSON, nullable=False, server_default="[]"),
    ):
        op.add_column("sessions", column)
    warm = sa.text("warm")
    op.create_index(
        "sessions_spare",
        "sessions",
        ["profile", "id"],
        sqlite_where=warm,
        postgresql_where=warm,
    )
    op.add_column(
        "statements", sa.Column("is_query", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.create_table(
        "snapshots",
        sa.Column("session_id", _ID, sa.ForeignKey("sessions.id"), primary_key=True),
        sa.Column("snapshot", sa.JSON, nullable=False),
        sa.Column("taken_at", _INSTANT, nullable=False),
    )
