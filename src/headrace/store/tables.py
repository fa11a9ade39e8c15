"""The tables. migrations/ creates them; a test compares the two.

A row is live while `ended_at IS NULL`. Every query for live rows repeats this condition verbatim,
because both databases use a partial index only then. A million finished statements therefore do
not slow down a claim.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Enum,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.types import TypeDecorator

from headrace.model.audit import AuditAction
from headrace.model.connection import ConnectionSpec
from headrace.model.deployment import ChangeRecord, DeploymentPlan, JobAction, VersionSpec
from headrace.model.execution import StatementExecution
from headrace.model.expectation import Expectation, ExpectationCounts
from headrace.model.failure import Failure
from headrace.model.identity import Scope
from headrace.model.job import JobDecision, SavepointContent
from headrace.model.job_messages import JobOutcome, JobTask
from headrace.model.lifecycle import (
    CATALOG_INTENT,
    CHANGE,
    DEPLOYMENT,
    JOB,
    NODE,
    OPERATION,
    RUN,
    SAVEPOINT,
    SESSION,
    STATEMENT,
    STREAM,
    TOKEN,
    TRANSACTION,
    ChangeStep,
    DeploymentState,
    IntentState,
    JobState,
    Lifecycle,
    NodeState,
    OperationState,
    RunState,
    SavepointState,
    SessionState,
    StatementState,
    StreamState,
    TokenState,
    TransactionState,
)
from headrace.model.lineage import LineageDirection, TableUse
from headrace.model.materialized_view import IntentAction, ViewRows
from headrace.model.request_fields import (
    FieldKind,
    SessionFields,
    SubmitFields,
    describe_fields,
)
from headrace.model.result import Disposition, ResultRequest
from headrace.model.run import FiringRules, RunInput, RunTrigger, TriggerSourceKind
from headrace.model.session import FencedDriver, SessionKind, Snapshot
from headrace.model.statement import CancelReason, Parameter, Progress
from headrace.model.stream_expectation import StreamCounts
from headrace.model.stream_history import BatchPart
from headrace.model.stream_query import EndReason, QuerySpec, Wanted
from headrace.model.transaction import Staged
from headrace.store.clock import Instant

_LOG = logging.getLogger("headrace.store")


def _none() -> None:
    return None


def id_type() -> Text:
    """Return a text type that sorts by code point on both databases, so that ids sort by time."""
    return Text().with_variant(Text(collation="C"), "postgresql")


class OpenEnum(Enum):
    """The values of an enum as text. A value that is not a member is read as the text itself.

    A newer node that shares the store may write such values during a rolling upgrade.
    """

    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[Any], Any]:
        """Return the function that converts a value of the database."""
        to_member = super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call]

        def to_member_or_text(value: Any) -> Any:
            try:
                return to_member(value)
            except LookupError:
                return value

        return to_member_or_text


def enum_type(members: type[StrEnum], *, check: str | None = None, length: int = 16) -> OpenEnum:
    """Return a text type for the values of an enum.

    Args:
        check: Name of a check constraint that enforces the values; None: no constraint.
    """
    return OpenEnum(
        members,
        name=check,
        native_enum=False,
        create_constraint=check is not None,
        length=length,
        values_callable=lambda enum: [member.value for member in enum],
    )


def ended_check(
    lifecycle: Lifecycle[Any], *, column: str = "state", name: str = "ended"
) -> CheckConstraint:
    """Return the constraint that a row has `ended_at` in the terminal states, and in no other.

    Args:
        column: Name of the column of the state.
        name: Name of the constraint.
    """
    ends = [f"'{state}'" for state in lifecycle.transitions if state in lifecycle.terminal]
    has_end = f"{column} = {ends[0]}" if len(ends) == 1 else f"{column} IN ({', '.join(ends)})"
    return CheckConstraint(f"(ended_at IS NOT NULL) = ({has_end})", name=name)


class Document(TypeDecorator[Any]):
    """A pydantic type as JSON text; None is NULL.

    A document that is not valid is read as the fallback, so that one bad row never hides others.

    The type is json and not jsonb: jsonb refuses a NUL character in a message from Spark, and
    reorders keys.
    """

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, shape: Any, make_fallback: Callable[[], Any] = _none) -> None:
        super().__init__()
        self.shape = shape
        self.make_fallback = make_fallback
        self._adapter: TypeAdapter[Any] = TypeAdapter(shape)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else self._adapter.dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        if value is None:
            return None
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            _LOG.error("a stored %s is not valid: %s", self.shape, error.errors()[0]["msg"])
            return self.make_fallback()


LIVE = text("ended_at IS NULL")
WARM = text("warm")
"""Condition on sessions, as text: for the column, SQLAlchemy renders `warm = 1` on SQLite."""
OPEN_POOL = text("pool AND ended_at IS NULL AND state <> 'closing'")
TIMED = text(
    "ended_at IS NULL AND (timeout_seconds IS NOT NULL OR queue_timeout_seconds IS NOT NULL)"
)
NODE_EVENTS = text("entity = 'node'")
ENDED = text("ended_at IS NOT NULL")
UNSUCCESSFUL = text("ended_at IS NOT NULL AND state <> 'success'")
FAILED = text("state = 'failed'")
HELD = text("holder_session_id IS NOT NULL AND gone_at IS NULL")
STORED = text("disposition = 'stored' AND holder_session_id IS NULL AND gone_at IS NULL")
WAITING = text("ended_at IS NULL AND state = 'waiting'")
SLOW = {
    "sqlite": text("ended_at - started_at >= 1000000"),
    "postgresql": text("ended_at - started_at >= '00:00:01'::interval"),
}
"""Condition on statements that have ended and ran for at least a second, for each database."""
_BACKFILLS = text("backfill_id IS NOT NULL")
_FIRES = text("next_at IS NOT NULL")
_IS_READY = text("ready_at IS NOT NULL")
_HAS_LAG = text("max_lag IS NOT NULL")
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

FIELD_TYPES = {FieldKind.DURATION: Float, FieldKind.COUNT: BigInteger, FieldKind.TEXT: Text}


def _columns_of(description: type[Any]) -> list[Column[Any]]:
    """Return the columns of fields of a request. See `headrace.model.request_fields`."""
    fields = describe_fields(description)
    return [Column(name, FIELD_TYPES[field.kind]) for name, field in fields.items()]


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
    ended_check(NODE),
    Index("nodes_live", "id", unique=True, sqlite_where=LIVE, postgresql_where=LIVE),
    Index("nodes_by_id", "id", "registration"),
    Index("nodes_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
    sqlite_autoincrement=True,
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("source", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("groups", JSON, nullable=False),
    # When the source has issued the name and the groups, as a Unix time.
    Column("issued_at", Float),
    Column("created_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("disabled_at", Instant),
    UniqueConstraint("source", "subject", name="users_subject"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("secret_hash", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("scope", enum_type(Scope, check="known_scope"), nullable=False),
    Column("state", enum_type(TokenState, check="known_state"), nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("last_used_at", Instant),
    Column("ended_at", Instant),
    ended_check(TOKEN),
    Index(
        "tokens_live_name",
        "owner",
        "name",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("tokens_by_owner", "owner", "id"),
    Index("tokens_expired", "expires_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("action", enum_type(AuditAction, length=32), nullable=False),
    Column("actor", Text),
    Column("token_id", Text),
    Column("address", Text),
    Column("target", Text),
    Column("detail", JSON, nullable=False),
    Index("audit_by_actor", "actor", "id"),
    Index("audit_by_target", "target", "id"),
    Index("audit_by_action", "action", "id"),
    Index("audit_by_time", "at"),
)

sign_in_failures = Table(
    "sign_in_failures",
    metadata,
    # A hash; empty: all names. An empty address stands for all addresses.
    Column("name", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    # Until when no further attempt is allowed.
    Column("free_at", Instant, nullable=False),
    Index("sign_in_failures_by_age", "free_at"),
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
    *_columns_of(SessionFields),
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
    ended_check(SESSION),
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

# When the owner may again submit as many statements at once as in a minute.
submit_rates = Table(
    "submit_rates",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("full_at", Instant, nullable=False),
)

# Virtual times of the last claim of an owner: see `store/statements/limits.py`.
fair_shares = Table(
    "fair_shares",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("start", Float, nullable=False),
    Column("finish", Float, nullable=False),
)

schema_support = Table("schema_support", metadata, Column("oldest_code", Text, primary_key=True))
"""One row: the oldest schema version whose code can use this schema."""

store_catalog = Table(
    "store_catalog",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("keys", JSON, nullable=False),
    Column("place", JSON(none_as_null=True)),
    Column("description", Text, nullable=False),
    Column("node_id", id_type(), nullable=False),
    Column("recorded_at", Instant, nullable=False),
)
"""The one catalog of the store: one row, or none before a node has started."""

_TO_FORGET = text("ended_at IS NOT NULL AND snapshot IS NOT NULL")
cursors = Table(
    "cursors",
    metadata,
    Column("statement_id", id_type(), ForeignKey("statements.id"), primary_key=True),
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
)

statement_executions = Table(
    "statement_executions",
    metadata,
    Column(
        "statement_id",
        id_type(),
        # A node of an older version deletes old statements, too, and does not know this table.
        ForeignKey("statements.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("execution", Document(StatementExecution), nullable=False),
)

# What a statement that has succeeded reads and writes: a row for each table.
lineage = Table(
    "lineage",
    metadata,
    Column(
        "statement_id",
        id_type(),
        # A node of an older version deletes old statements, too, and does not know this table.
        ForeignKey("statements.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("position", Integer, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("direction", enum_type(LineageDirection, check="known_direction"), nullable=False),
    Column("table_key", Text, nullable=False),
    Column("table_use", Document(TableUse), nullable=False),
    Column("at", Instant, nullable=False),
    Index("lineage_by_table", "table_key", "direction", "statement_id"),
)

connections = Table(
    "connections",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("spec", Document(ConnectionSpec), nullable=False),
    Column("snapshot", Document(Snapshot)),
    Column("changed_by", id_type()),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Index("connections_by_use", "ended_at", "last_used_at"),
    Index("connections_open_by_owner", "owner", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("connections_to_forget", "id", sqlite_where=_TO_FORGET, postgresql_where=_TO_FORGET),
)

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
    *_columns_of(SubmitFields),
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
    Column("connection_id", id_type()),
    # Finds earlier runs of the text; NULL: an earlier version has stored the statement.
    Column("text_digest", Text),
    ended_check(STATEMENT),
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
    Index(
        "statements_live_by_connection",
        "connection_id",
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
    # The failures of an owner, however many of its statements have succeeded.
    Index(
        "statements_unsuccessful",
        "owner",
        "id",
        "state",
        sqlite_where=UNSUCCESSFUL,
        postgresql_where=UNSUCCESSFUL,
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
    Index(
        "statements_slow_by_text",
        "owner",
        "text_digest",
        "ended_at",
        sqlite_where=SLOW["sqlite"],
        postgresql_where=SLOW["postgresql"],
    ),
)

editor_drafts = Table(
    "editor_drafts",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("connection_id", id_type()),
    Column("revision", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index("editor_drafts_by_owner", "owner", "updated_at", "id"),
    Index("editor_drafts_by_use", "updated_at"),
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
    ended_check(TRANSACTION),
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
    Column("owner", Text, nullable=False),
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
        "results_stored",
        "owner",
        "byte_count",
        sqlite_where=STORED,
        postgresql_where=STORED,
    ),
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
    Column("owner", Text),
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


# Streams and sinks that CREATE STREAM and CREATE SINK define. A replacement is a new row.
definitions = Table(
    "definitions",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Index(
        "definitions_live_name",
        "owner",
        "scope",
        "kind",
        "name_key",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("definitions_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

# There is no foreign key: a query can outlive the statement and the session that began it.
stream_queries = Table(
    "stream_queries",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("spec", Document(QuerySpec), nullable=False),
    # The identity of its place: the spec has the location.
    Column("checkpoint", Text),
    Column("state", enum_type(StreamState, check="known_state"), nullable=False),
    Column("wanted", enum_type(Wanted), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("session_id", id_type(), nullable=False),
    Column("statement_id", id_type()),
    Column("attempt", Integer, nullable=False),
    Column("previous_id", id_type()),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("retry_at", Instant),
    Column("run_id", Text),
    Column("last_batch", BigInteger),
    Column("last_error", Document(Failure)),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("healthy_since", Instant),
    Column("ended_at", Instant),
    Column("report_epoch", Integer),
    Column("report_sequence", Integer),
    Column("end_reason", enum_type(EndReason)),
    ended_check(STREAM),
    Index(
        "stream_queries_live_name",
        "owner",
        "scope",
        "name_key",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index(
        "stream_queries_live_checkpoint",
        "checkpoint",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("stream_queries_by_checkpoint", "checkpoint", "id"),
    Index("stream_queries_live", "session_id", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("stream_queries_by_name", "owner", "scope", "name_key", "id"),
    Index("stream_queries_by_statement", "statement_id"),
    Index("stream_queries_by_owner", "owner", "id"),
    Index("stream_queries_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
    Index("stream_queries_failed", "ended_at", sqlite_where=FAILED, postgresql_where=FAILED),
)

# A ring for each query: a batch replaces the oldest one in its slot.
stream_progress = Table(
    "stream_progress",
    metadata,
    Column("query_id", id_type(), primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("batch", BigInteger, nullable=False),
    Column("progress", JSON, nullable=False),
)

# A ring for each query: a minute replaces the one HISTORY_MINUTES before in its slot. The foreign
# key lets a node of an older version delete a query with its minutes.
stream_minutes = Table(
    "stream_minutes",
    metadata,
    Column("query_id", id_type(), ForeignKey("stream_queries.id", ondelete="CASCADE")),
    Column("slot", Integer),
    Column("minute", BigInteger, nullable=False),
    Column("batches", BigInteger, nullable=False),
    Column("input_rows", BigInteger, nullable=False),
    Column("milliseconds", BigInteger, nullable=False),
    Column("slowest_milliseconds", BigInteger, nullable=False),
    *(Column(part, BigInteger, nullable=False) for part in BatchPart),
    Column("watermark_gap", BigInteger),
    Column("backlog", BigInteger),
    Column("state_rows", BigInteger, nullable=False),
    Column("state_bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("query_id", "slot"),
)


# There is no foreign key: a view outlives its statements and its query.
materialized_views = Table(
    "materialized_views",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("rows", Document(ViewRows), nullable=False),
    Column("statement_id", id_type(), nullable=False),
    Column("writer_id", id_type(), nullable=False),
    Column("writer_attempt", Integer),
    Column("generation", Integer, nullable=False),
    Column("began_at", Instant, nullable=False),
    Column("current_generation", Integer),
    Column("fresh_as_of", Instant),
    Column("query_id", id_type()),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Index(
        "materialized_views_live_target",
        "identity",
        "target",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index(
        "materialized_views_live_name",
        "owner",
        "name_key",
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("materialized_views_by_writer", "writer_id"),
    Index("materialized_views_by_target", "identity", "target", "generation"),
    Index("materialized_views_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

catalog_intents = Table(
    "catalog_intents",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("action", enum_type(IntentAction), nullable=False),
    Column("view_id", id_type(), nullable=False),
    Column("path", JSON, nullable=False),
    Column("generation", Integer),
    Column("query_id", id_type()),
    Column("state", enum_type(IntentState, check="known_state"), nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("session_id", id_type()),
    Column("epoch", Integer),
    Column("claim_until", Instant),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("last_error", Text),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    ended_check(CATALOG_INTENT, name="ended_with_state"),
    Index("catalog_intents_due", "due_at", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("catalog_intents_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)


jobs = Table(
    "jobs",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("state", enum_type(JobState, check="known_state"), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("state_location", Text, nullable=False),
    # The identity of its place.
    Column("state_place", Text),
    Column("version_id", id_type()),
    Column("run", Text),
    Column("change_id", id_type()),
    Column("failure", Document(Failure)),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("ended_at", Instant),
    ended_check(JOB),
    Index(
        "jobs_live_name", "owner", "name_key", unique=True, sqlite_where=LIVE, postgresql_where=LIVE
    ),
    # Two jobs of one name would write to the same directories.
    Index(
        "jobs_live_state_place",
        "state_place",
        "name_key",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("jobs_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

job_versions = Table(
    "job_versions",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("job_id", id_type(), nullable=False),
    Column("version", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("query_id", Text, nullable=False),
    Column("query_created_at", Instant, nullable=False),
    Column("spec", Document(VersionSpec), nullable=False),
    Column("decision", enum_type(JobDecision, length=32), nullable=False),
    Column("reason", Text, nullable=False),
    Column("from_state", Text),
    Column("last_run", Text),
    Column("outcome", Text),
    Column("deployment_id", id_type(), nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("job_versions_by_job", "job_id", "revision", unique=True),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("action", enum_type(JobAction), nullable=False),
    Column("state", enum_type(DeploymentState, check="known_state"), nullable=False),
    Column("plan", Document(DeploymentPlan), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("applied_at", Instant),
    Column("ended_at", Instant),
    ended_check(DEPLOYMENT, name="ended_with_state"),
    Index("deployments_by_owner", "owner", "id"),
    Index("deployments_live", "id", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("deployments_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

job_changes = Table(
    "job_changes",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("deployment_id", id_type(), nullable=False),
    Column("job_id", id_type(), nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("step", enum_type(ChangeStep, check="known_step"), nullable=False),
    Column("record", Document(ChangeRecord), nullable=False),
    Column("failure", Document(Failure)),
    Column("created_at", Instant, nullable=False),
    Column("stepped_at", Instant, nullable=False),
    Column("ended_at", Instant),
    ended_check(CHANGE, column="step"),
    Index("job_changes_by_deployment", "deployment_id", "id"),
    Index("job_changes_by_job", "job_id", "id"),
)

savepoints = Table(
    "savepoints",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("job_id", id_type(), nullable=False),
    Column("version", Integer, nullable=False),
    Column("run", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("state", enum_type(SavepointState, check="known_state"), nullable=False),
    Column("content", Document(SavepointContent)),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    ended_check(SAVEPOINT),
    Index("savepoints_by_job", "job_id", "id"),
)

# How far the schedule of each deployed batch job has come.
job_schedules = Table(
    "job_schedules",
    metadata,
    Column("job_id", id_type(), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("version_id", id_type(), nullable=False),
    Column("rules", Document(FiringRules, FiringRules), nullable=False),
    Column("cursor", Instant, nullable=False),
    Column("next_at", Instant),
    # Seconds; NULL: the rules have no `max-lag`.
    Column("max_lag", Float),
    Index("job_schedules_due", "next_at", sqlite_where=_FIRES, postgresql_where=_FIRES),
    Index("job_schedules_of_lag", "job_id", sqlite_where=_HAS_LAG, postgresql_where=_HAS_LAG),
)

# One row for each logical time, skipped ones included, and one for each repetition.
runs = Table(
    "runs",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("job_id", id_type(), nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("version_id", id_type(), nullable=False),
    Column("state", enum_type(RunState, check="known_state"), nullable=False),
    Column("trigger", enum_type(RunTrigger), nullable=False),
    Column("backfill_id", id_type()),
    Column("logical_time", Instant, nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("interval_start", Instant, nullable=False),
    Column("interval_end", Instant, nullable=False),
    Column("zone", Text, nullable=False),
    Column("utc_offset", Integer, nullable=False),
    Column("is_shifted", Boolean, nullable=False),
    Column("tzdata", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("awaits_attempt", Boolean, nullable=False),
    Column("has_turn", Boolean, nullable=False),
    Column("parallelism", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("connection_id", id_type()),
    Column("reason", Text, nullable=False),
    Column("failure", Document(Failure)),
    Column("cancelled_by", Text),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    # NULL: none.
    Column("inputs", Document(list[RunInput])),
    Column("awaits_conditions", Boolean, nullable=False, server_default=false()),
    ended_check(RUN),
    # A firing is neither lost nor doubled, whatever is deployed, purged or upgraded meanwhile.
    Index("runs_by_time", "job_id", "logical_time", "repetition", unique=True),
    Index("runs_by_owner", "owner", "id"),
    Index(
        "runs_by_backfill",
        "backfill_id",
        "logical_time",
        sqlite_where=_BACKFILLS,
        postgresql_where=_BACKFILLS,
    ),
    Index("runs_live", "job_id", "logical_time", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("runs_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

run_statements = Table(
    "run_statements",
    metadata,
    Column("run_id", id_type(), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    # The intent to submit it: the statement may not exist yet, and may be deleted before the run.
    Column("statement_id", id_type(), nullable=False),
    Index("run_statements_by_statement", "statement_id"),
)

# The jobs and tables that start the runs of a deployed job. A stopped job keeps its rows.
job_triggers = Table(
    "job_triggers",
    metadata,
    Column("job_id", id_type(), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", enum_type(TriggerSourceKind), primary_key=True),
    Column("source_key", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    # As the manifest names it.
    Column("source", Text, nullable=False),
    Column("is_paused", Boolean, nullable=False),
    # Of a table: the last change that a run has used.
    Column("used_transaction_id", id_type()),
    Index("job_triggers_by_source", "kind", "source_key", "owner"),
)

# Runs that have ended, and that a job which follows them has not used yet.
upstream_runs = Table(
    "upstream_runs",
    metadata,
    Column("job_id", id_type(), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("run_id", id_type(), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("is_missed", Boolean, nullable=False),
    # NULL: it waits for a run of another job, or for the start of the job.
    Column("ready_at", Instant),
    Index("upstream_runs_ready", "ready_at", sqlite_where=_IS_READY, postgresql_where=_IS_READY),
    Index("upstream_runs_by_run", "run_id"),
)

# The statements of runs whose rows are checked.
run_expectations = Table(
    "run_expectations",
    metadata,
    Column("statement_id", id_type(), primary_key=True),
    Column("run_id", id_type(), ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("job_id", id_type(), nullable=False),
    Column("expectations", Document(list[Expectation], list), nullable=False),
    # NULL: not known.
    Column("counts", Document(ExpectationCounts)),
    Index("run_expectations_by_run", "run_id"),
    Index("run_expectations_by_job", "job_id", "statement_id"),
)

# What the CREATE or a REFRESH of a materialized view has counted. The text of the view declares its
# expectations.
view_expectations = Table(
    "view_expectations",
    metadata,
    Column(
        "statement_id",
        id_type(),
        # A node of an older version deletes old statements, too, and does not know this table.
        ForeignKey("statements.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("view_id", id_type(), nullable=False),
    # NULL: the counts are not known.
    Column("counts", Document(ExpectationCounts)),
    Index("view_expectations_by_view", "view_id", "statement_id"),
)

# The counts of the batches of a streaming query, in one row of a fixed size.
stream_expectations = Table(
    "stream_expectations",
    metadata,
    Column(
        "query_id",
        id_type(),
        ForeignKey("stream_queries.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("counts", Document(StreamCounts), nullable=False),
)

# What each streaming query reads and writes.
stream_lineage = Table(
    "stream_lineage",
    metadata,
    Column(
        "query_id",
        id_type(),
        ForeignKey("stream_queries.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("position", Integer, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("direction", enum_type(LineageDirection, check="known_direction"), nullable=False),
    Column("table_key", Text, nullable=False),
    Column("table_use", Document(TableUse), nullable=False),
    Column("at", Instant, nullable=False),
    Index("stream_lineage_by_table", "table_key", "direction", "query_id"),
)

# Changes of tables that the jobs with a trigger on them have not used yet.
table_changes = Table(
    "table_changes",
    metadata,
    Column("job_id", id_type(), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("source_key", Text, primary_key=True),
    Column("transaction_id", id_type(), primary_key=True),
    Column("changed_at", Instant, nullable=False),
    # NULL: it waits for the start of the job.
    Column("ready_at", Instant),
    Index("table_changes_ready", "ready_at", sqlite_where=_IS_READY, postgresql_where=_IS_READY),
)

# Jobs that new files start. The node that has claimed one lists its files.
file_watches = Table(
    "file_watches",
    metadata,
    Column("job_id", id_type(), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("is_paused", Boolean, nullable=False),
    Column("node_id", id_type()),
    Column("epoch", Integer, nullable=False),
    # NULL: the files can start runs.
    Column("problem", Text),
)

# The files that runs of a job read or have read, until they vanish.
used_files = Table(
    "used_files",
    metadata,
    Column("job_id", id_type(), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    # Digest of the path.
    Column("path_key", id_type(), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("revision", Text, nullable=False),
    Column("file_id", Text),
    Column("run_id", id_type(), nullable=False),
    Column("used_at", Instant, nullable=False),
)

# The files that a run has to read. They are apart from the run, because lists of runs omit them.
run_files = Table(
    "run_files",
    metadata,
    Column("run_id", id_type(), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("files", Document(list[str], list), nullable=False),
)

# Long work of a node. A node claims an operation; another one adopts it when the lease has expired.
operations = Table(
    "operations",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("ref", id_type(), nullable=False),
    Column("state", enum_type(OperationState, check="known_state"), nullable=False),
    Column("node_id", id_type()),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("lease_until", Instant),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    ended_check(OPERATION),
    Index("operations_live", "id", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("operations_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

# The tasks of drivers, each with the statement that carries it.
job_tasks = Table(
    "job_tasks",
    metadata,
    Column("statement_id", id_type(), primary_key=True),
    Column("task", Document(JobTask), nullable=False),
    Column("outcome", Document(JobOutcome)),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    # A reference: the store has no secret.
    Column("secret", Text, nullable=False),
    Column("events", JSON, nullable=False),
    Column("jobs", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("owner", "name", name="webhooks_name"),
)

# The outbox. The transaction that makes a fact inserts the messages about it.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("owner", Text),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("last_error", Text),
    # Of the last attempt whose outcome is known. NULL: there was no response, or no attempt.
    Column("last_status", Integer),
    Column("attempted_at", Instant),
    Column("created_at", Instant, nullable=False),
    # A node that claims a delivery moves it forward: this is its lease.
    Column("next_at", Instant),
    Column("sent_at", Instant),
    Column("failed_at", Instant),
    UniqueConstraint("kind", "subject", "endpoint", name="deliveries_subject"),
    CheckConstraint(
        "(next_at IS NULL) = (sent_at IS NOT NULL OR failed_at IS NOT NULL)", name="ended"
    ),
    Index("deliveries_due", "next_at", sqlite_where=_FIRES, postgresql_where=_FIRES),
    Index("deliveries_waiting", "created_at", sqlite_where=_FIRES, postgresql_where=_FIRES),
    Index("deliveries_by_endpoint", "endpoint", "id"),
    Index("deliveries_by_age", "created_at"),
)
