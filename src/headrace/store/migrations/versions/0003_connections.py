"""Connections of clients, and their positions in results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
oldest_code = "0003"  # older code would run the statements of connections outside them

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables, and the column that names a connection."""
    op.create_table(
        "connections",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("snapshot", sa.JSON),
        sa.Column("changed_by", _ID),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("last_used_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="connections_key"),
    )
    op.create_index("connections_by_use", "connections", ["ended_at", "last_used_at"])
    is_live = sa.text("ended_at IS NULL")
    op.create_index(
        "connections_open_by_owner",
        "connections",
        ["owner"],
        sqlite_where=is_live,
        postgresql_where=is_live,
    )
    has_state = sa.text("ended_at IS NOT NULL AND snapshot IS NOT NULL")
    op.create_index(
        "connections_to_forget",
        "connections",
        ["id"],
        sqlite_where=has_state,
        postgresql_where=has_state,
    )
    op.execute("INSERT INTO limit_locks (counted) VALUES ('connections')")
    op.create_table(
        "cursors",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("end", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("statement_id", name="cursors_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"], ["statements.id"], name="cursors_statement_id_exists"
        ),
    )
    op.add_column("statements", sa.Column("connection_id", _ID))
