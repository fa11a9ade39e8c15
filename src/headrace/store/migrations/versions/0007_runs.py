"""Schedules and runs of batch jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_STATES = ["due", "running", "succeeded", "failed", "skipped", "cancelled"]


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "job_schedules",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("rules", sa.JSON, nullable=False),
        sa.Column("cursor", _INSTANT, nullable=False),
        sa.Column("next_at", _INSTANT),
        sa.PrimaryKeyConstraint("job_id", name="job_schedules_key"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="job_schedules_job_id_exists", ondelete="CASCADE"
        ),
    )
    _create_partial_index("job_schedules_due", "job_schedules", ["next_at"], "next_at IS NOT NULL")
    states = ", ".join(f"'{state}'" for state in _STATES)
    ends = ", ".join(f"'{state}'" for state in _STATES[2:])
    op.create_table(
        "runs",
        sa.Column("id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("trigger", sa.String(16), nullable=False),
        sa.Column("backfill_id", _ID),
        sa.Column("logical_time", _INSTANT, nullable=False),
        sa.Column("repetition", sa.Integer, nullable=False),
        sa.Column("interval_start", _INSTANT, nullable=False),
        sa.Column("interval_end", _INSTANT, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("utc_offset", sa.Integer, nullable=False),
        sa.Column("is_shifted", sa.Boolean, nullable=False),
        sa.Column("tzdata", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("awaits_attempt", sa.Boolean, nullable=False),
        sa.Column("has_turn", sa.Boolean, nullable=False),
        sa.Column("parallelism", sa.Integer, nullable=False),
        sa.Column("due_at", _INSTANT, nullable=False),
        sa.Column("connection_id", _ID),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("failure", sa.JSON),
        sa.Column("cancelled_by", sa.Text),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("started_at", _INSTANT),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="runs_key"),
        sa.CheckConstraint(f"state IN ({states})", name="runs_known_state"),
        sa.CheckConstraint(f"(ended_at IS NOT NULL) = (state IN ({ends}))", name="runs_ended"),
    )
    op.create_index("runs_by_time", "runs", ["job_id", "logical_time", "repetition"], unique=True)
    op.create_index("runs_by_owner", "runs", ["owner", "id"])
    _create_partial_index(
        "runs_by_backfill", "runs", ["backfill_id", "logical_time"], "backfill_id IS NOT NULL"
    )
    _create_partial_index("runs_live", "runs", ["job_id", "logical_time"], "ended_at IS NULL")
    _create_partial_index("runs_ended", "runs", ["ended_at"], "ended_at IS NOT NULL")
    op.create_table(
        "run_statements",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("statement_id", _ID, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", "position", name="run_statements_key"),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="run_statements_run_id_exists", ondelete="CASCADE"
        ),
    )
    op.create_index("run_statements_by_statement", "run_statements", ["statement_id"])


def _create_partial_index(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
