"""The tables. migrations/ creates them; a test compares the two.

A row is live while `ended_at IS NULL`. Every query for live rows repeats this condition verbatim,
because both databases use a partial index only then. A million finished statements therefore do
not slow down a claim.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

from headrace.model.failure import Failure
from headrace.model.lifecycle import NodeState, SessionState, StatementState, TransactionState
from headrace.model.progress import Progress
from headrace.model.result import Disposition, ResultRequest
from headrace.model.session import FencedDriver, SessionKind
from headrace.model.snapshot import Snapshot
from headrace.model.statement import CancelReason, Parameter
from headrace.model.transaction import Staged
from headrace.store.clock import Instant
from headrace.store.columns import Document, enum_type, id_type

LIVE = text("ended_at IS NULL")
WARM = text("warm")
"""Condition on sessions, as text: for the column, SQLAlchemy renders `warm = 1` on SQLite."""
OPEN_POOL = text("pool AND ended_at IS NULL AND state <> 'closing'")
TIMED = text(
    "ended_at IS NULL AND (timeout_seconds IS NOT NULL OR queue_timeout_seconds IS NOT NULL)"
)
NODE_EVENTS = text("entity = 'node'")
ENDED = text("ended_at IS NOT NULL")
HELD = text("holder_session_id IS NOT NULL AND gone_at IS NULL")
WAITING = text("ended_at IS NULL AND state = 'waiting'")
SLOW = {
    "sqlite": text("ended_at - started_at >= 1000000"),
    "postgresql": text("ended_at - started_at >= '00:00:01'::interval"),
}
"""Condition on statements that have ended and ran for at least a second, for each database."""
_PUBLISHING = text("state = 'committing' AND NOT shares_target")

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s",
        "uq": "%(table_name)s_%(column_0_N_name)s_unique",
        "ck": "%(table_name)s_%(constraint_name)s",
        "fk": "%(table_name)s_%(column_0_N_name)s_exists",
        "pk": "%(table_name)s_key",
    }
)

# SQLite may reuse a number, except in a column that is INTEGER PRIMARY KEY AUTOINCREMENT.
_COUNTER = BigInteger().with_variant(Integer(), "sqlite")
_NULLABLE_JSON = JSON(none_as_null=True)

nodes = Table(
    "nodes",
    metadata,
    Column("registration", _COUNTER, primary_key=True, autoincrement=True),
    Column("id", id_type(), nullable=False),
    Column("address", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("state", enum_type(NodeState, check="known_state"), nullable=False),
    Column("profiles", JSON, nullable=False),
    Column("backends", JSON, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("present_since", Instant, nullable=False),
    Column("lease_until", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("host", JSON),
    Column("link_version", Integer, nullable=False, server_default="1"),
    Column("confirmed_gone_at", Instant),
    Column("event_process", Text),
    CheckConstraint("(ended_at IS NOT NULL) = (state = 'gone')", name="ended"),
    Index("nodes_live", "id", unique=True, sqlite_where=LIVE, postgresql_where=LIVE),
    Index("nodes_by_id", "id", "registration"),
    Index("nodes_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
    sqlite_autoincrement=True,
)

sessions = Table(
    "sessions",
    metadata,
    Column("number", _COUNTER, primary_key=True, autoincrement=True),
    Column("id", id_type(), nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("kind", enum_type(SessionKind), nullable=False),
    Column("name", Text),
    Column("state", enum_type(SessionState, check="known_state"), nullable=False),
    Column("profile", Text, nullable=False),
    Column("conf", JSON, nullable=False),
    Column("catalog", Text),
    Column("database", Text),
    Column("jars", JSON, nullable=False),
    Column("files", JSON, nullable=False),
    Column("py_files", JSON, nullable=False),
    Column("idle_seconds", Float),
    Column("ttl_seconds", Float),
    Column("parallelism", Integer, nullable=False, server_default="1"),
    Column("pool", Boolean, nullable=False, server_default=false()),
    Column("warm", Boolean, nullable=False, server_default=false()),
    Column("for_jobs", Boolean, nullable=False, server_default=false()),
    Column("streams", Integer, nullable=False, server_default="0"),
    Column("streams_generation", Integer, nullable=False, server_default="0"),
    Column("epoch", Integer, nullable=False),
    Column("starts", Integer, nullable=False, server_default="0"),
    Column("fenced_driver", Document(FencedDriver)),
    Column("lost", JSON, nullable=False, server_default="[]"),
    Column("next_ordinal", Integer, nullable=False),
    Column("launched_by", Text),
    Column("host", JSON),
    Column("token_hash", Text),
    Column("results_location", Text),
    Column("link_process", Text),
    Column("flight_host", Text),
    Column("flight_secret", Text),
    Column("handle", _NULLABLE_JSON),
    Column("driver", _NULLABLE_JSON),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    Column("last_used_at", Instant),
    Column("last_update_time", Instant),
    Column("closing_since", Instant),
    Column("lease_until", Instant),
    Column("failure", Document(Failure)),
    CheckConstraint("(ended_at IS NOT NULL) = (state IN ('dead', 'failed'))", name="ended"),
    Index("sessions_live", "id", sqlite_where=LIVE, postgresql_where=LIVE),
    Index(
        "sessions_live_name",
        "owner",
        "name",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("sessions_by_owner", "owner", "id"),
    Index("sessions_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
    Index(
        "sessions_pool",
        "owner",
        "profile",
        unique=True,
        sqlite_where=OPEN_POOL,
        postgresql_where=OPEN_POOL,
    ),
    Index("sessions_warm", "profile", "id", sqlite_where=WARM, postgresql_where=WARM),
    sqlite_autoincrement=True,
)

limit_locks = Table("limit_locks", metadata, Column("counted", Text, primary_key=True))
"""One row for each limit on live rows. A transaction locks the row while it counts."""

schema_support = Table("schema_support", metadata, Column("oldest_code", Text, primary_key=True))
"""One row: the oldest schema version whose code can use this schema."""

snapshots = Table(
    "snapshots",
    metadata,
    Column("session_id", id_type(), ForeignKey("sessions.id"), primary_key=True),
    Column("snapshot", Document(Snapshot), nullable=False),
    Column("taken_at", Instant, nullable=False),
)

statements = Table(
    "statements",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("session_id", id_type(), ForeignKey("sessions.id"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("kind", enum_type(SessionKind), nullable=False),
    Column("state", enum_type(StatementState, check="known_state"), nullable=False),
    Column("text", Text, nullable=False),
    Column("is_query", Boolean, nullable=False, server_default=false()),
    Column("command", Text),
    Column("parameters", Document(list[Parameter], list), nullable=False),
    Column("conf", JSON, nullable=False),
    Column("result_request", Document(ResultRequest, ResultRequest), nullable=False),
    Column("timeout_seconds", Float),
    Column("queue_timeout_seconds", Float),
    Column("epoch", Integer),
    Column("attempts", Integer, nullable=False),
    Column("may_have_effects", Boolean, nullable=False, server_default=true()),
    Column("created_at", Instant, nullable=False),
    Column("waiting_since", Instant, nullable=False),
    Column("launched_at", Instant),
    Column("started_at", Instant),
    Column("cancel_requested_at", Instant),
    Column("cancel_reason", enum_type(CancelReason)),
    Column("cancel_forced", Boolean, nullable=False, server_default=false()),
    Column("cancel_note", Text),
    Column("ended_at", Instant),
    Column("progress", Document(Progress)),
    Column("atomic", Boolean),
    Column("note", Text),
    Column("rows_written", BigInteger),
    Column("failure", Document(Failure)),
    Column("awaited_by", Text),
    CheckConstraint(
        "(ended_at IS NOT NULL) = (state IN ('success', 'failed', 'timeout', 'cancelled'))",
        name="ended",
    ),
    UniqueConstraint("session_id", "ordinal"),
    Index("statements_live", "session_id", "ordinal", sqlite_where=LIVE, postgresql_where=LIVE),
    # The statements in flight and the oldest waiting one, however many statements wait.
    Index(
        "statements_live_by_state",
        "state",
        "session_id",
        "ordinal",
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index(
        "statements_timed",
        "id",
        sqlite_where=TIMED,
        postgresql_where=TIMED,
    ),
    Index("statements_by_owner", "owner", "id"),
    Index(
        "statements_live_by_owner",
        "owner",
        "state",
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("statements_by_session", "session_id", "id"),
    Index(
        "statements_by_end",
        "state",
        "id",
        sqlite_where=ENDED,
        postgresql_where=ENDED,
    ),
    Index("statements_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
    # The statement that waits longest, however many wait.
    Index(
        "statements_waiting",
        "waiting_since",
        "id",
        sqlite_where=WAITING,
        postgresql_where=WAITING,
    ),
    # Most statements take less than a second: their ends do not change this index.
    Index(
        "statements_slow",
        "ended_at",
        "id",
        sqlite_where=SLOW["sqlite"],
        postgresql_where=SLOW["postgresql"],
    ),
)

transactions = Table(
    "transactions",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("statement_id", id_type(), ForeignKey("statements.id"), nullable=False),
    Column("session_id", id_type(), ForeignKey("sessions.id"), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("state", enum_type(TransactionState, check="known_state"), nullable=False),
    Column("catalog", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("location", Text),
    Column("staged", Document(Staged), nullable=False),
    Column("staged_epoch", Integer, nullable=False),
    Column("shares_target", Boolean, nullable=False, server_default=false()),
    # Attempts to resolve the transaction while it is orphaned.
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("retry_at", Instant),
    Column("last_error", Text),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    CheckConstraint("(ended_at IS NOT NULL) = (state IN ('committed', 'aborted'))", name="ended"),
    Index("transactions_live", "statement_id", sqlite_where=LIVE, postgresql_where=LIVE),
    # One transaction at a time publishes a table of a given name, or at a given LOCATION. Appends
    # to one table run beside each other.
    Index(
        "transactions_publishing_target",
        "identity",
        "target",
        unique=True,
        sqlite_where=_PUBLISHING,
        postgresql_where=_PUBLISHING,
    ),
    Index(
        "transactions_publishing_location",
        "identity",
        "location",
        unique=True,
        sqlite_where=_PUBLISHING,
        postgresql_where=_PUBLISHING,
    ),
    Index("transactions_by_statement", "statement_id", "id"),
    Index("transactions_by_session", "session_id"),
)

# Writes that run, and writes that may have left files: a few at any time. There is no foreign key,
# because a row can outlive its statement.
table_writes = Table(
    "table_writes",
    metadata,
    Column("number", _COUNTER, primary_key=True, autoincrement=True),
    Column("statement_id", id_type(), nullable=False),
    Column("session_id", id_type(), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("identity", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("table", Text),
    Column("overwrite", Boolean, nullable=False),
    Column("released", Boolean, nullable=False, server_default=false()),
    Column("created_at", Instant, nullable=False),
    Index("table_writes_by_statement", "statement_id"),
    # A location may be longer than an entry of a B-tree on PostgreSQL.
    Index("table_writes_by_location", "location", postgresql_using="hash"),
    sqlite_autoincrement=True,
)

pending_hook_calls = Table(
    "pending_hook_calls",
    metadata,
    Column("statement_id", id_type(), ForeignKey("statements.id"), primary_key=True),
    Column("session_id", id_type(), ForeignKey("sessions.id"), nullable=False),
    Index("pending_hook_calls_by_session", "session_id"),
)

results = Table(
    "results",
    metadata,
    Column("statement_id", id_type(), ForeignKey("statements.id"), primary_key=True),
    Column("disposition", enum_type(Disposition), nullable=False),
    Column("spark_schema", JSON, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("byte_count", BigInteger, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("location", Text),
    Column("data", LargeBinary),
    Column("expires_at", Instant, nullable=False),
    Column("gone_at", Instant),
    Column("deletion_failures", Integer, nullable=False, server_default="0"),
    Column("retry_at", Instant),
    Column("holder_session_id", id_type()),
    Column("holder_epoch", Integer),
    Column("endpoint", Text),
    Column("gone_reason", Text),
    Index("results_held", "holder_session_id", sqlite_where=HELD, postgresql_where=HELD),
    Index(
        "results_kept",
        "expires_at",
        sqlite_where=text("gone_at IS NULL"),
        postgresql_where=text("gone_at IS NULL"),
    ),
)

# A PostgreSQL server numbers its transactions by itself. Each server that the store has been on has
# a row here, in order: a restore on another server starts the next generation of events.
event_generations = Table(
    "event_generations",
    metadata,
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("server", Text, nullable=False),
    Column("began_at", Instant, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", _COUNTER, primary_key=True, autoincrement=True),
    Column("generation", Integer, nullable=False),
    Column("xid", BigInteger, nullable=False),
    Column("entity", Text, nullable=False),
    Column("entity_id", id_type(), nullable=False),
    Column("source", Text),
    Column("target", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("actor", Text, nullable=False),
    Column("detail", JSON, nullable=False),
    Index("events_order", "generation", "xid", "id"),
    Index("events_by_entity", "entity_id", "generation", "xid", "id"),
    Index("events_of_nodes", "at", sqlite_where=NODE_EVENTS, postgresql_where=NODE_EVENTS),
    sqlite_autoincrement=True,
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_hash", Text, nullable=False),
    Column("statement_id", id_type(), nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("idempotency_age", "created_at"),
)

backend_budgets = Table(
    "backend_budgets",
    metadata,
    Column("backend", Text, primary_key=True),
    Column("next_at", Instant, nullable=False),
)
