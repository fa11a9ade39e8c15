"""The tables of streams: definitions, queries, and the progress of queries. See tables.py."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, Index, Integer, Table, Text

from headrace.model.failure import Failure
from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import EndReason, QuerySpec, Wanted
from headrace.store.clock import Instant
from headrace.store.columns import Document, enum_type, id_type
from headrace.store.tables import ENDED, LIVE, metadata

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
    CheckConstraint("(ended_at IS NOT NULL) = (state IN ('stopped', 'failed'))", name="ended"),
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
