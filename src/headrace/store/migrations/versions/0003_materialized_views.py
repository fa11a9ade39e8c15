"""Materialized views, and changes of catalogs that a driver must still make."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_LIVE = "ended_at IS NULL"
_ENDED = "ended_at IS NOT NULL"


def upgrade() -> None:
    """Create the tables."""
    _create_views()
    _create_intents()


def _create_views() -> None:
    table = "materialized_views"
    op.create_table(
        table,
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("rows", sa.JSON, nullable=False),
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("writer_id", _ID, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("began_at", _INSTANT, nullable=False),
        sa.Column("current_generation", sa.Integer),
        sa.Column("fresh_as_of", _INSTANT),
        sa.Column("query_id", _ID),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name=f"{table}_key"),
    )
    _create_partial_index(f"{table}_live_target", table, ["identity", "target"], _LIVE, unique=True)
    _create_partial_index(f"{table}_live_name", table, ["owner", "name_key"], _LIVE)
    op.create_index(f"{table}_by_writer", table, ["writer_id"])
    op.create_index(f"{table}_by_target", table, ["identity", "target", "generation"])
    _create_partial_index(f"{table}_ended", table, ["ended_at"], _ENDED)


def _create_intents() -> None:
    table = "catalog_intents"
    op.create_table(
        table,
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("view_id", _ID, nullable=False),
        sa.Column("path", sa.JSON, nullable=False),
        sa.Column("generation", sa.Integer),
        sa.Column("query_id", _ID),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("due_at", _INSTANT, nullable=False),
        sa.Column("session_id", _ID),
        sa.Column("epoch", sa.Integer),
        sa.Column("claim_until", _INSTANT),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name=f"{table}_key"),
        sa.CheckConstraint(
            "state IN ('pending', 'claimed', 'done', 'failed')", name=f"{table}_known_state"
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('done', 'failed'))",
            name=f"{table}_ended_with_state",
        ),
    )
    _create_partial_index(f"{table}_due", table, ["due_at"], _LIVE)
    _create_partial_index(f"{table}_ended", table, ["ended_at"], _ENDED)


def _create_partial_index(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    condition = sa.text(where)
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        sqlite_where=condition,
        postgresql_where=condition,
    )
