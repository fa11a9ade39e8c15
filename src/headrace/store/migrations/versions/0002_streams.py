"""Streams: definitions, queries and their progress."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables, and add what sessions and statements need."""
    op.add_column(
        "sessions",
        sa.Column("streams_generation", sa.Integer, nullable=False, server_default="0"),
    )
    op.add_column("statements", sa.Column("command", sa.Text))
    _create_definitions()
    _create_stream_queries()


def _create_definitions() -> None:
    op.create_table(
        "definitions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="definitions_key"),
    )
    _create_partial_index(
        "definitions_live_name",
        "definitions",
        ["owner", "scope", "kind", "name_key"],
        "ended_at IS NULL",
        unique=True,
    )
    _create_partial_index("definitions_ended", "definitions", ["ended_at"], "ended_at IS NOT NULL")


def _create_stream_queries() -> None:
    op.create_table(
        "stream_queries",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("checkpoint", sa.Text),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("wanted", sa.String(16), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("session_id", _ID, nullable=False),
        sa.Column("statement_id", _ID),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("previous_id", _ID),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("retry_at", _INSTANT),
        sa.Column("run_id", sa.Text),
        sa.Column("last_batch", sa.BigInteger),
        sa.Column("last_error", sa.JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("started_at", _INSTANT),
        sa.Column("healthy_since", _INSTANT),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="stream_queries_key"),
        sa.CheckConstraint(
            "state IN ('starting', 'running', 'backing_off', 'stopping', 'paused', 'stopped', "
            "'failed')",
            name="stream_queries_known_state",
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('stopped', 'failed'))",
            name="stream_queries_ended",
        ),
    )
    is_live = "ended_at IS NULL"
    for name, columns in (
        ("stream_queries_live_name", ["owner", "scope", "name_key"]),
        ("stream_queries_live_checkpoint", ["checkpoint"]),
    ):
        _create_partial_index(name, "stream_queries", columns, is_live, unique=True)
    _create_partial_index("stream_queries_live", "stream_queries", ["session_id"], is_live)
    op.create_index(
        "stream_queries_by_name", "stream_queries", ["owner", "scope", "name_key", "id"]
    )
    op.create_index("stream_queries_by_checkpoint", "stream_queries", ["checkpoint", "id"])
    op.create_index("stream_queries_by_statement", "stream_queries", ["statement_id"])
    op.create_index("stream_queries_by_owner", "stream_queries", ["owner", "id"])
    _create_partial_index(
        "stream_queries_ended", "stream_queries", ["ended_at"], "ended_at IS NOT NULL"
    )
    op.create_table(
        "stream_progress",
        sa.Column("query_id", _ID, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "slot", name="stream_progress_key"),
    )


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
