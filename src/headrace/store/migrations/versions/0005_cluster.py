"""Hosts and ends of nodes, budgets of backends, limits on live rows, results held by drivers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
oldest_code = "0004"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Add the columns and the tables, and mark the sessions that deployments have opened."""
    for_jobs = sa.Column("for_jobs", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("sessions", for_jobs)
    op.add_column("nodes", sa.Column("host", sa.JSON))
    one = sa.text("1")
    op.add_column(
        "nodes", sa.Column("link_version", sa.Integer, nullable=False, server_default=one)
    )
    op.add_column("nodes", sa.Column("confirmed_gone_at", _INSTANT))
    locks = op.create_table(
        "limit_locks",
        sa.Column("counted", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("counted", name="limit_locks_key"),
    )
    op.bulk_insert(locks, [{"counted": name} for name in ("sessions", "waiting", "running")])
    op.create_table(
        "schema_support",
        sa.Column("oldest_code", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("oldest_code", name="schema_support_key"),
    )
    op.create_table(
        "backend_budgets",
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("next_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("backend", name="backend_budgets_key"),
    )
    _add_held_results()


def _add_held_results() -> None:
    """Add the columns of results that drivers hold.

    Code that does not know them reads such a result as `stored`, with files that do not exist.
    """
    op.add_column("sessions", sa.Column("flight_host", sa.Text))
    op.add_column("sessions", sa.Column("flight_secret", sa.Text))
    op.add_column("results", sa.Column("holder_session_id", _ID))
    op.add_column("results", sa.Column("holder_epoch", sa.Integer))
    op.add_column("results", sa.Column("endpoint", sa.Text))
    op.add_column("results", sa.Column("gone_reason", sa.Text))
    held = sa.text("holder_session_id IS NOT NULL AND gone_at IS NULL")
    op.create_index(
        "results_held",
        "results",
        ["holder_session_id"],
        sqlite_where=held,
        postgresql_where=held,
    )
