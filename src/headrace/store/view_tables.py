"""The tables of materialized views, and of changes of catalogs to be made. See tables.py."""

from __future__ import annotations

from sqlalchemy import JSON, CheckConstraint, Column, Index, Integer, Table, Text

from headrace.model.lifecycle import IntentState
from headrace.model.materialized_view import IntentAction, ViewRows
from headrace.store.clock import Instant
from headrace.store.columns import Document, enum_type, id_type
from headrace.store.tables import ENDED, LIVE, metadata

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
    CheckConstraint(
        "(ended_at IS NOT NULL) = (state IN ('done', 'failed'))", name="ended_with_state"
    ),
    Index("catalog_intents_due", "due_at", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("catalog_intents_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)
