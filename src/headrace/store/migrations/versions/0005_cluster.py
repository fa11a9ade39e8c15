"""Hosts of nodes, confirmed ends of nodes, budgets of backends, and limits on live rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
oldest_code = "0004"

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
