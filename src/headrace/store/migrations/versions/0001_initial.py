"""The initial schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables and indexes."""
    _create_nodes()
    _create_sessions()
    _create_snapshots()
    _create_statements()
    _index_statements()
    _create_transactions()
    _create_table_writes()
    _create_pending_hook_calls()
    _create_results()
    _create_events()
    _create_idempotency()


def _create_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("registration", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("id", _ID, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("profiles", sa.JSON, nullable=False),
        sa.Column("backends", sa.JSON, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("present_since", _INSTANT, nullable=False),
        sa.Column("lease_until", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("registration", name="nodes_key"),
        sa.CheckConstraint("state IN ('up', 'draining', 'gone')", name="nodes_known_state"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'gone')", name="nodes_ended"),
        sqlite_autoincrement=True,
    )
    _create_partial_index("nodes_live", "nodes", ["id"], "ended_at IS NULL", unique=True)
    op.create_index("nodes_by_id", "nodes", ["id", "registration"])
    _create_partial_index("nodes_ended", "nodes", ["ended_at"], "ended_at IS NOT NULL")


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("number", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("conf", sa.JSON, nullable=False),
        sa.Column("catalog", sa.Text),
        sa.Column("database", sa.Text),
        sa.Column("jars", sa.JSON, nullable=False),
        sa.Column("files", sa.JSON, nullable=False),
        sa.Column("py_files", sa.JSON, nullable=False),
        sa.Column("idle_seconds", sa.Float),
        sa.Column("ttl_seconds", sa.Float),
        sa.Column("parallelism", sa.Integer, nullable=False, server_default="1"),
        sa.Column("warm", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("streams", sa.Integer, nullable=False, server_default="0"),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("starts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("fenced_driver", sa.JSON),
        sa.Column("lost", sa.JSON, nullable=False, server_default="[]"),
        sa.Column("next_ordinal", sa.Integer, nullable=False),
        sa.Column("launched_by", sa.Text),
        sa.Column("host", sa.JSON),
        sa.Column("token_hash", sa.Text),
        sa.Column("results_location", sa.Text),
        sa.Column("handle", sa.JSON),
        sa.Column("driver", sa.JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("started_at", _INSTANT),
        sa.Column("ended_at", _INSTANT),
        sa.Column("last_used_at", _INSTANT),
        sa.Column("last_update_time", _INSTANT),
        sa.Column("closing_since", _INSTANT),
        sa.Column("lease_until", _INSTANT),
        sa.Column("failure", sa.JSON),
        sa.PrimaryKeyConstraint("number", name="sessions_key"),
        sa.UniqueConstraint("id", name="sessions_id_unique"),
        sa.CheckConstraint(
            "state IN ('not_started', 'starting', 'running', 'recovering', 'closing', 'dead', "
            "'failed')",
            name="sessions_known_state",
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('dead', 'failed'))", name="sessions_ended"
        ),
        sqlite_autoincrement=True,
    )
    _create_partial_index("sessions_live", "sessions", ["id"], "ended_at IS NULL")
    _create_partial_index(
        "sessions_live_name", "sessions", ["owner", "name"], "ended_at IS NULL", unique=True
    )
    op.create_index("sessions_by_owner", "sessions", ["owner", "id"])
    _create_partial_index("sessions_ended", "sessions", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index("sessions_warm", "sessions", ["profile", "id"], "warm")


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("session_id", _ID, nullable=False),
        sa.Column("snapshot", sa.JSON, nullable=False),
        sa.Column("taken_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="snapshots_key"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="snapshots_session_id_exists"
        ),
    )


def _create_statements() -> None:
    op.create_table(
        "statements",
        sa.Column("id", _ID, nullable=False),
        sa.Column("session_id", _ID, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("is_query", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("conf", sa.JSON, nullable=False),
        sa.Column("result_request", sa.JSON, nullable=False),
        sa.Column("timeout_seconds", sa.Float),
        sa.Column("queue_timeout_seconds", sa.Float),
        sa.Column("epoch", sa.Integer),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("waiting_since", _INSTANT, nullable=False),
        sa.Column("launched_at", _INSTANT),
        sa.Column("started_at", _INSTANT),
        sa.Column("cancel_requested_at", _INSTANT),
        sa.Column("cancel_reason", sa.String(16)),
        sa.Column("cancel_forced", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("cancel_note", sa.Text),
        sa.Column("ended_at", _INSTANT),
        sa.Column("progress", sa.JSON),
        sa.Column("atomic", sa.Boolean),
        sa.Column("note", sa.Text),
        sa.Column("rows_written", sa.BigInteger),
        sa.Column("failure", sa.JSON),
        sa.PrimaryKeyConstraint("id", name="statements_key"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="statements_session_id_exists"
        ),
        sa.UniqueConstraint("session_id", "ordinal", name="statements_session_id_ordinal_unique"),
        sa.CheckConstraint(
            "state IN ('waiting', 'launched', 'running', 'cancelling', 'success', 'failed', "
            "'timeout', 'cancelled')",
            name="statements_known_state",
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('success', 'failed', 'timeout', 'cancelled'))",
            name="statements_ended",
        ),
    )


def _index_statements() -> None:
    _create_partial_index(
        "statements_live", "statements", ["session_id", "ordinal"], "ended_at IS NULL"
    )
    _create_partial_index(
        "statements_live_by_state",
        "statements",
        ["state", "session_id", "ordinal"],
        "ended_at IS NULL",
    )
    _create_partial_index(
        "statements_by_end", "statements", ["state", "id"], "ended_at IS NOT NULL"
    )
    _create_partial_index("statements_ended", "statements", ["ended_at"], "ended_at IS NOT NULL")
    op.create_index("statements_by_owner", "statements", ["owner", "id"])
    op.create_index("statements_by_session", "statements", ["session_id", "id"])
    _create_partial_index(
        "statements_timed",
        "statements",
        ["id"],
        "ended_at IS NULL AND (timeout_seconds IS NOT NULL OR queue_timeout_seconds IS NOT NULL)",
    )


def _create_transactions() -> None:
    op.create_table(
        "transactions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("session_id", _ID, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("location", sa.Text),
        sa.Column("staged", sa.JSON, nullable=False),
        sa.Column("staged_epoch", sa.Integer, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="transactions_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"], ["statements.id"], name="transactions_statement_id_exists"
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="transactions_session_id_exists"
        ),
        sa.CheckConstraint(
            "state IN ('prepared', 'begun', 'committing', 'committed', 'aborting', 'aborted')",
            name="transactions_known_state",
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('committed', 'aborted'))",
            name="transactions_ended",
        ),
    )
    _create_partial_index("transactions_live", "transactions", ["statement_id"], "ended_at IS NULL")
    for name, column in (
        ("transactions_publishing_target", "target"),
        ("transactions_publishing_location", "location"),
    ):
        _create_partial_index(
            name, "transactions", ["identity", column], "state = 'committing'", unique=True
        )
    op.create_index("transactions_by_statement", "transactions", ["statement_id", "id"])
    op.create_index("transactions_by_session", "transactions", ["session_id"])


def _create_table_writes() -> None:
    op.create_table(
        "table_writes",
        sa.Column("number", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("session_id", _ID, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("table", sa.Text),
        sa.Column("overwrite", sa.Boolean, nullable=False),
        sa.Column("released", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="table_writes_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("table_writes_by_statement", "table_writes", ["statement_id"])
    op.create_index(
        "table_writes_by_location", "table_writes", ["location"], postgresql_using="hash"
    )


def _create_pending_hook_calls() -> None:
    op.create_table(
        "pending_hook_calls",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("session_id", _ID, nullable=False),
        sa.PrimaryKeyConstraint("statement_id", name="pending_hook_calls_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"], ["statements.id"], name="pending_hook_calls_statement_id_exists"
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="pending_hook_calls_session_id_exists"
        ),
    )
    op.create_index("pending_hook_calls_by_session", "pending_hook_calls", ["session_id"])


def _create_results() -> None:
    op.create_table(
        "results",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("disposition", sa.String(16), nullable=False),
        sa.Column("spark_schema", sa.JSON, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("byte_count", sa.BigInteger, nullable=False),
        sa.Column("truncated", sa.Boolean, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("location", sa.Text),
        sa.Column("data", sa.LargeBinary),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.Column("gone_at", _INSTANT),
        sa.Column("deletion_failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("retry_at", _INSTANT),
        sa.PrimaryKeyConstraint("statement_id", name="results_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"], ["statements.id"], name="results_statement_id_exists"
        ),
    )
    _create_partial_index("results_kept", "results", ["expires_at"], "gone_at IS NULL")


def _create_events() -> None:
    op.create_table(
        "event_generations",
        sa.Column("generation", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("began_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("generation", name="event_generations_key"),
    )
    op.create_table(
        "events",
        sa.Column("id", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("xid", sa.BigInteger, nullable=False),
        sa.Column("entity", sa.Text, nullable=False),
        sa.Column("entity_id", _ID, nullable=False),
        sa.Column("source", sa.Text),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="events_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("events_order", "events", ["generation", "xid", "id"])
    op.create_index("events_by_entity", "events", ["entity_id", "generation", "xid", "id"])
    _create_partial_index("events_of_nodes", "events", ["at"], "entity = 'node'")


def _create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("body_hash", sa.Text, nullable=False),
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name="idempotency_key"),
    )
    op.create_index("idempotency_age", "idempotency", ["created_at"])


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
