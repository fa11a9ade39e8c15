"""The schema of version 0.1.0."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
oldest_code = "0001"

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables and indexes."""
    _create_backend_budgets()
    _create_catalog_intents()
    _create_definitions()
    _create_deployments()
    _create_event_generations()
    _create_events()
    _create_idempotency()
    _create_job_changes()
    _create_job_tasks()
    _create_job_versions()
    _create_jobs()
    _create_limit_locks()
    _create_materialized_views()
    _create_nodes()
    _create_operations()
    _create_savepoints()
    _create_schema_support()
    _create_sessions()
    _create_stream_progress()
    _create_stream_queries()
    _create_table_writes()
    _create_store_catalog()
    _create_snapshots()
    _create_statements()
    _create_pending_hook_calls()
    _create_results()
    _create_transactions()


def _create_backend_budgets() -> None:
    op.create_table(
        "backend_budgets",
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("next_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("backend", name="backend_budgets_key"),
    )


def _create_catalog_intents() -> None:
    op.create_table(
        "catalog_intents",
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
        sa.PrimaryKeyConstraint("id", name="catalog_intents_key"),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('done', 'failed'))",
            name="catalog_intents_ended_with_state",
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'claimed', 'done', 'failed')", name="catalog_intents_known_state"
        ),
    )
    _create_partial_index("catalog_intents_due", "catalog_intents", ["due_at"], "ended_at IS NULL")
    _create_partial_index(
        "catalog_intents_ended", "catalog_intents", ["ended_at"], "ended_at IS NOT NULL"
    )


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
    _create_partial_index("definitions_ended", "definitions", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index(
        "definitions_live_name",
        "definitions",
        ["owner", "scope", "kind", "name_key"],
        "ended_at IS NULL",
        unique=True,
    )


def _create_deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("applied_at", _INSTANT),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="deployments_key"),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('rejected', 'applied', 'failed', 'expired'))",
            name="deployments_ended_with_state",
        ),
        sa.CheckConstraint(
            "state IN ('checking', 'planned', 'rejected', 'applying', 'applied', "
            "'failed', 'expired')",
            name="deployments_known_state",
        ),
    )
    op.create_index("deployments_by_owner", "deployments", ["owner", "id"])
    _create_partial_index("deployments_ended", "deployments", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index("deployments_live", "deployments", ["id"], "ended_at IS NULL")


def _create_event_generations() -> None:
    op.create_table(
        "event_generations",
        sa.Column("generation", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("began_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("generation", name="event_generations_key"),
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("xid", sa.BigInteger, nullable=False),
        sa.Column("entity", sa.Text, nullable=False),
        sa.Column("entity_id", _ID, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("source", sa.Text),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="events_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("events_by_entity", "events", ["entity_id", "generation", "xid", "id"])
    _create_partial_index("events_of_nodes", "events", ["at"], "entity = 'node'")
    op.create_index("events_order", "events", ["generation", "xid", "id"])


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


def _create_job_changes() -> None:
    op.create_table(
        "job_changes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("deployment_id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("step", sa.String(16), nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.Column("failure", sa.JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("stepped_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="job_changes_key"),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (step IN ('applied', 'failed'))", name="job_changes_ended"
        ),
        sa.CheckConstraint(
            "step IN ('planned', 'stop_wanted', 'stopped', 'verified', 'restored', "
            "'started', 'proven', 'undoing', 'applied', 'failed')",
            name="job_changes_known_step",
        ),
    )
    op.create_index("job_changes_by_deployment", "job_changes", ["deployment_id", "id"])
    op.create_index("job_changes_by_job", "job_changes", ["job_id", "id"])


def _create_job_tasks() -> None:
    op.create_table(
        "job_tasks",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("task", sa.JSON, nullable=False),
        sa.Column("outcome", sa.JSON),
        sa.PrimaryKeyConstraint("statement_id", name="job_tasks_key"),
    )


def _create_job_versions() -> None:
    op.create_table(
        "job_versions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("query_id", sa.Text, nullable=False),
        sa.Column("query_created_at", _INSTANT, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("decision", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("from_state", sa.Text),
        sa.Column("last_run", sa.Text),
        sa.Column("outcome", sa.Text),
        sa.Column("deployment_id", _ID, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="job_versions_key"),
    )
    op.create_index("job_versions_by_job", "job_versions", ["job_id", "revision"], unique=True)


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("state_location", sa.Text, nullable=False),
        sa.Column("state_place", sa.Text),
        sa.Column("version_id", _ID),
        sa.Column("run", sa.Text),
        sa.Column("change_id", _ID),
        sa.Column("failure", sa.JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="jobs_key"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'deleted')", name="jobs_ended"),
        sa.CheckConstraint(
            "state IN ('deploying', 'running', 'stopping', 'stopped', 'failed', 'deleted')",
            name="jobs_known_state",
        ),
    )
    _create_partial_index("jobs_ended", "jobs", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index(
        "jobs_live_name", "jobs", ["owner", "name_key"], "ended_at IS NULL", unique=True
    )
    _create_partial_index(
        "jobs_live_state_place",
        "jobs",
        ["state_place", "name_key"],
        "ended_at IS NULL",
        unique=True,
    )


def _create_limit_locks() -> None:
    locks = op.create_table(
        "limit_locks",
        sa.Column("counted", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("counted", name="limit_locks_key"),
    )
    op.bulk_insert(locks, [{"counted": name} for name in ("sessions", "waiting", "running")])


def _create_materialized_views() -> None:
    op.create_table(
        "materialized_views",
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
        sa.Column("writer_attempt", sa.Integer),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("began_at", _INSTANT, nullable=False),
        sa.Column("current_generation", sa.Integer),
        sa.Column("fresh_as_of", _INSTANT),
        sa.Column("query_id", _ID),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="materialized_views_key"),
    )
    op.create_index(
        "materialized_views_by_target", "materialized_views", ["identity", "target", "generation"]
    )
    op.create_index("materialized_views_by_writer", "materialized_views", ["writer_id"])
    _create_partial_index(
        "materialized_views_ended", "materialized_views", ["ended_at"], "ended_at IS NOT NULL"
    )
    _create_partial_index(
        "materialized_views_live_name",
        "materialized_views",
        ["owner", "name_key"],
        "ended_at IS NULL",
    )
    _create_partial_index(
        "materialized_views_live_target",
        "materialized_views",
        ["identity", "target"],
        "ended_at IS NULL",
        unique=True,
    )


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
        sa.Column("host", sa.JSON),
        sa.Column("link_version", sa.Integer, nullable=False, server_default="1"),
        sa.Column("confirmed_gone_at", _INSTANT),
        sa.Column("event_process", sa.Text),
        sa.PrimaryKeyConstraint("registration", name="nodes_key"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'gone')", name="nodes_ended"),
        sa.CheckConstraint("state IN ('up', 'draining', 'gone')", name="nodes_known_state"),
        sqlite_autoincrement=True,
    )
    op.create_index("nodes_by_id", "nodes", ["id", "registration"])
    _create_partial_index("nodes_ended", "nodes", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index("nodes_live", "nodes", ["id"], "ended_at IS NULL", unique=True)


def _create_operations() -> None:
    op.create_table(
        "operations",
        sa.Column("id", _ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("ref", _ID, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("node_id", _ID),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("lease_until", _INSTANT),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="operations_key"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'done')", name="operations_ended"),
        sa.CheckConstraint(
            "state IN ('pending', 'claimed', 'done')", name="operations_known_state"
        ),
    )
    _create_partial_index("operations_ended", "operations", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index("operations_live", "operations", ["id"], "ended_at IS NULL")


def _create_savepoints() -> None:
    op.create_table(
        "savepoints",
        sa.Column("id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("content", sa.JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="savepoints_key"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'pruned')", name="savepoints_ended"),
        sa.CheckConstraint(
            "state IN ('copying', 'verified', 'broken', 'pruned')", name="savepoints_known_state"
        ),
    )
    op.create_index("savepoints_by_job", "savepoints", ["job_id", "id"])


def _create_schema_support() -> None:
    op.create_table(
        "schema_support",
        sa.Column("oldest_code", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("oldest_code", name="schema_support_key"),
    )


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
        sa.Column("pool", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("warm", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("for_jobs", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("streams", sa.Integer, nullable=False, server_default="0"),
        sa.Column("streams_generation", sa.Integer, nullable=False, server_default="0"),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("starts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("fenced_driver", sa.JSON),
        sa.Column("lost", sa.JSON, nullable=False, server_default="[]"),
        sa.Column("next_ordinal", sa.Integer, nullable=False),
        sa.Column("launched_by", sa.Text),
        sa.Column("host", sa.JSON),
        sa.Column("token_hash", sa.Text),
        sa.Column("results_location", sa.Text),
        sa.Column("link_process", sa.Text),
        sa.Column("flight_host", sa.Text),
        sa.Column("flight_secret", sa.Text),
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
            "(ended_at IS NOT NULL) = (state IN ('dead', 'failed'))", name="sessions_ended"
        ),
        sa.CheckConstraint(
            "state IN ('not_started', 'starting', 'running', 'recovering', "
            "'closing', 'dead', 'failed')",
            name="sessions_known_state",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("sessions_by_owner", "sessions", ["owner", "id"])
    _create_partial_index("sessions_ended", "sessions", ["ended_at"], "ended_at IS NOT NULL")
    _create_partial_index("sessions_live", "sessions", ["id"], "ended_at IS NULL")
    _create_partial_index(
        "sessions_live_name", "sessions", ["owner", "name"], "ended_at IS NULL", unique=True
    )
    _create_partial_index(
        "sessions_pool",
        "sessions",
        ["owner", "profile"],
        "pool AND ended_at IS NULL AND state <> 'closing'",
        unique=True,
    )
    _create_partial_index("sessions_warm", "sessions", ["profile", "id"], "warm")


def _create_stream_progress() -> None:
    op.create_table(
        "stream_progress",
        sa.Column("query_id", _ID, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "slot", name="stream_progress_key"),
    )


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
        sa.Column("report_epoch", sa.Integer),
        sa.Column("report_sequence", sa.Integer),
        sa.Column("end_reason", sa.String(16)),
        sa.PrimaryKeyConstraint("id", name="stream_queries_key"),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('stopped', 'failed'))", name="stream_queries_ended"
        ),
        sa.CheckConstraint(
            "state IN ('starting', 'running', 'backing_off', 'stopping', 'paused', "
            "'stopped', 'failed')",
            name="stream_queries_known_state",
        ),
    )
    op.create_index("stream_queries_by_checkpoint", "stream_queries", ["checkpoint", "id"])
    op.create_index(
        "stream_queries_by_name", "stream_queries", ["owner", "scope", "name_key", "id"]
    )
    op.create_index("stream_queries_by_owner", "stream_queries", ["owner", "id"])
    op.create_index("stream_queries_by_statement", "stream_queries", ["statement_id"])
    _create_partial_index(
        "stream_queries_ended", "stream_queries", ["ended_at"], "ended_at IS NOT NULL"
    )
    _create_partial_index(
        "stream_queries_live", "stream_queries", ["session_id"], "ended_at IS NULL"
    )
    _create_partial_index(
        "stream_queries_live_checkpoint",
        "stream_queries",
        ["checkpoint"],
        "ended_at IS NULL",
        unique=True,
    )
    _create_partial_index(
        "stream_queries_live_name",
        "stream_queries",
        ["owner", "scope", "name_key"],
        "ended_at IS NULL",
        unique=True,
    )


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
    # An entry of a B-tree has at most 2,704 bytes, and a location can be longer.
    op.create_index(
        "table_writes_by_location", "table_writes", ["location"], postgresql_using="hash"
    )
    op.create_index("table_writes_by_statement", "table_writes", ["statement_id"])


def _create_store_catalog() -> None:
    op.create_table(
        "store_catalog",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("keys", sa.JSON, nullable=False),
        sa.Column("place", sa.JSON(none_as_null=True)),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("node_id", _ID, nullable=False),
        sa.Column("recorded_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="store_catalog_key"),
    )


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column(
            "session_id",
            _ID,
            sa.ForeignKey("sessions.id", name="snapshots_session_id_exists"),
            nullable=False,
        ),
        sa.Column("snapshot", sa.JSON, nullable=False),
        sa.Column("taken_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="snapshots_key"),
    )


def _create_statements() -> None:
    op.create_table(
        "statements",
        sa.Column("id", _ID, nullable=False),
        sa.Column(
            "session_id",
            _ID,
            sa.ForeignKey("sessions.id", name="statements_session_id_exists"),
            nullable=False,
        ),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("is_query", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("command", sa.Text),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("conf", sa.JSON, nullable=False),
        sa.Column("result_request", sa.JSON, nullable=False),
        sa.Column("timeout_seconds", sa.Float),
        sa.Column("queue_timeout_seconds", sa.Float),
        sa.Column("epoch", sa.Integer),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("may_have_effects", sa.Boolean, nullable=False, server_default=sa.true()),
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
        sa.Column("awaited_by", sa.Text),
        sa.PrimaryKeyConstraint("id", name="statements_key"),
        sa.UniqueConstraint("session_id", "ordinal", name="statements_session_id_ordinal_unique"),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('success', 'failed', 'timeout', 'cancelled'))",
            name="statements_ended",
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'launched', 'running', 'cancelling', 'success', "
            "'failed', 'timeout', 'cancelled')",
            name="statements_known_state",
        ),
    )
    _create_partial_index(
        "statements_by_end", "statements", ["state", "id"], "ended_at IS NOT NULL"
    )
    op.create_index("statements_by_owner", "statements", ["owner", "id"])
    op.create_index("statements_by_session", "statements", ["session_id", "id"])
    _create_partial_index("statements_ended", "statements", ["ended_at"], "ended_at IS NOT NULL")
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
        "statements_timed",
        "statements",
        ["id"],
        "ended_at IS NULL AND (timeout_seconds IS NOT NULL OR queue_timeout_seconds IS NOT NULL)",
    )


def _create_pending_hook_calls() -> None:
    op.create_table(
        "pending_hook_calls",
        sa.Column(
            "statement_id",
            _ID,
            sa.ForeignKey("statements.id", name="pending_hook_calls_statement_id_exists"),
            nullable=False,
        ),
        sa.Column(
            "session_id",
            _ID,
            sa.ForeignKey("sessions.id", name="pending_hook_calls_session_id_exists"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("statement_id", name="pending_hook_calls_key"),
    )
    op.create_index("pending_hook_calls_by_session", "pending_hook_calls", ["session_id"])


def _create_results() -> None:
    op.create_table(
        "results",
        sa.Column(
            "statement_id",
            _ID,
            sa.ForeignKey("statements.id", name="results_statement_id_exists"),
            nullable=False,
        ),
        sa.Column("owner", sa.Text, nullable=False),
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
        sa.Column("holder_session_id", _ID),
        sa.Column("holder_epoch", sa.Integer),
        sa.Column("endpoint", sa.Text),
        sa.Column("gone_reason", sa.Text),
        sa.PrimaryKeyConstraint("statement_id", name="results_key"),
    )
    _create_partial_index("results_kept", "results", ["expires_at"], "gone_at IS NULL")


def _create_transactions() -> None:
    op.create_table(
        "transactions",
        sa.Column("id", _ID, nullable=False),
        sa.Column(
            "statement_id",
            _ID,
            sa.ForeignKey("statements.id", name="transactions_statement_id_exists"),
            nullable=False,
        ),
        sa.Column(
            "session_id",
            _ID,
            sa.ForeignKey("sessions.id", name="transactions_session_id_exists"),
            nullable=False,
        ),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("location", sa.Text),
        sa.Column("staged", sa.JSON, nullable=False),
        sa.Column("staged_epoch", sa.Integer, nullable=False),
        sa.Column("shares_target", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("retry_at", _INSTANT),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="transactions_key"),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('committed', 'aborted'))",
            name="transactions_ended",
        ),
        sa.CheckConstraint(
            "state IN ('prepared', 'begun', 'committing', 'committed', 'aborting', 'aborted')",
            name="transactions_known_state",
        ),
    )
    op.create_index("transactions_by_session", "transactions", ["session_id"])
    op.create_index("transactions_by_statement", "transactions", ["statement_id", "id"])
    _create_partial_index("transactions_live", "transactions", ["statement_id"], "ended_at IS NULL")
    _create_partial_index(
        "transactions_publishing_location",
        "transactions",
        ["identity", "location"],
        "state = 'committing' AND NOT shares_target",
        unique=True,
    )
    _create_partial_index(
        "transactions_publishing_target",
        "transactions",
        ["identity", "target"],
        "state = 'committing' AND NOT shares_target",
        unique=True,
    )


def _create_partial_index(
    name: str, table: str, columns: list[str], condition: str, *, unique: bool = False
) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)
