"""Runs that other runs start."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Create the tables, and the column of inputs."""
    op.add_column("runs", sa.Column("inputs", sa.JSON))
    op.create_table(
        "job_triggers",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("source_key", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("is_paused", sa.Boolean, nullable=False),
        sa.Column("used_transaction_id", _ID),
        sa.PrimaryKeyConstraint("job_id", "kind", "source_key", name="job_triggers_key"),
        _references("job_triggers", "job_id", "jobs"),
    )
    op.create_index("job_triggers_by_source", "job_triggers", ["kind", "source_key", "owner"])
    op.create_table(
        "upstream_runs",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("is_missed", sa.Boolean, nullable=False),
        sa.Column("ready_at", _INSTANT),
        sa.PrimaryKeyConstraint("job_id", "run_id", name="upstream_runs_key"),
        _references("upstream_runs", "job_id", "jobs"),
        _references("upstream_runs", "run_id", "runs"),
    )
    op.create_index("upstream_runs_by_run", "upstream_runs", ["run_id"])
    op.create_table(
        "table_changes",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("source_key", sa.Text, nullable=False),
        sa.Column("transaction_id", _ID, nullable=False),
        sa.Column("changed_at", _INSTANT, nullable=False),
        sa.Column("ready_at", _INSTANT),
        sa.PrimaryKeyConstraint("job_id", "source_key", "transaction_id", name="table_changes_key"),
        _references("table_changes", "job_id", "jobs"),
    )
    is_ready = sa.text("ready_at IS NOT NULL")
    for table in ("upstream_runs", "table_changes"):
        op.create_index(
            f"{table}_ready",
            table,
            ["ready_at"],
            sqlite_where=is_ready,
            postgresql_where=is_ready,
        )


def _references(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    name = f"{table}_{column}_exists"
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=name, ondelete="CASCADE")
