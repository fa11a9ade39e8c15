"""Jobs: versions, deployments, changes, savepoints, operations of nodes, tasks of drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_LIVE = "ended_at IS NULL"
_ENDED = "ended_at IS NOT NULL"


def upgrade() -> None:
    """Create the tables."""
    _create_jobs()
    _create_versions()
    _create_deployments()
    _create_changes()
    _create_savepoints()
    _create_operations()
    op.create_table(
        "job_tasks",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("task", sa.JSON, nullable=False),
        sa.Column("outcome", sa.JSON),
        sa.PrimaryKeyConstraint("statement_id", name="job_tasks_key"),
    )


def _create_jobs() -> None:
    _create(
        "jobs",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("state_location", sa.Text, nullable=False),
        sa.Column("version_id", _ID),
        sa.Column("run", sa.Text),
        sa.Column("change_id", _ID),
        sa.Column("failure", sa.JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        states=("deploying", "running", "stopping", "stopped", "failed", "deleted"),
        ended="(ended_at IS NOT NULL) = (state = 'deleted')",
    )
    _create_partial_index("jobs_live_name", "jobs", ["owner", "name_key"], _LIVE, unique=True)
    _create_partial_index(
        "jobs_live_place", "jobs", ["state_location", "name_key"], _LIVE, unique=True
    )
    _create_partial_index("jobs_ended", "jobs", ["ended_at"], _ENDED)


def _create_versions() -> None:
    _create(
        "job_versions",
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
    )
    op.create_index("job_versions_by_job", "job_versions", ["job_id", "revision"], unique=True)


def _create_deployments() -> None:
    _create(
        "deployments",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("applied_at", _INSTANT),
        sa.Column("ended_at", _INSTANT),
        states=("checking", "planned", "rejected", "applying", "applied", "failed", "expired"),
        ended="(ended_at IS NOT NULL) = (state IN ('rejected', 'applied', 'failed', 'expired'))",
        ended_name="ended_with_state",
    )
    op.create_index("deployments_by_owner", "deployments", ["owner", "id"])
    _create_partial_index("deployments_live", "deployments", ["id"], _LIVE)
    _create_partial_index("deployments_ended", "deployments", ["ended_at"], _ENDED)


def _create_changes() -> None:
    _create(
        "job_changes",
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
        states=(
            *("planned", "stop_wanted", "stopped", "verified", "restored", "started"),
            *("proven", "undoing", "applied", "failed"),
        ),
        column="step",
        ended="(ended_at IS NOT NULL) = (step IN ('applied', 'failed'))",
    )
    op.create_index("job_changes_by_deployment", "job_changes", ["deployment_id", "id"])
    op.create_index("job_changes_by_job", "job_changes", ["job_id", "id"])


def _create_savepoints() -> None:
    _create(
        "savepoints",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("content", sa.JSON),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        states=("copying", "verified", "broken", "pruned"),
        ended="(ended_at IS NOT NULL) = (state = 'pruned')",
    )
    op.create_index("savepoints_by_job", "savepoints", ["job_id", "id"])


def _create_operations() -> None:
    _create(
        "operations",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("ref", _ID, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("node_id", _ID),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("lease_until", _INSTANT),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        states=("pending", "claimed", "done"),
        ended="(ended_at IS NOT NULL) = (state = 'done')",
    )
    _create_partial_index("operations_live", "operations", ["id"], _LIVE)
    _create_partial_index("operations_ended", "operations", ["ended_at"], _ENDED)


def _create(
    table: str,
    *columns: sa.Column[Any],
    states: Sequence[str] = (),
    column: str = "state",
    ended: str | None = None,
    ended_name: str = "ended",
) -> None:
    """Create a table with an id, and the constraints on its states."""
    constraints: list[sa.Constraint] = [sa.PrimaryKeyConstraint("id", name=f"{table}_key")]
    if states:
        listed = ", ".join(f"'{state}'" for state in states)
        known = sa.CheckConstraint(f"{column} IN ({listed})", name=f"{table}_known_{column}")
        constraints.append(known)
    if ended is not None:
        constraints.append(sa.CheckConstraint(ended, name=f"{table}_{ended_name}"))
    op.create_table(table, sa.Column("id", _ID, nullable=False), *columns, *constraints)


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
