"""Drivers number their reports about streaming queries, and say why a query has ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
oldest_code = "0004"


def upgrade() -> None:
    """Add the columns. A node that does not know them applies every report."""
    op.add_column("stream_queries", sa.Column("report_epoch", sa.Integer))
    op.add_column("stream_queries", sa.Column("report_sequence", sa.Integer))
    op.add_column("stream_queries", sa.Column("end_reason", sa.String(16)))
    op.add_column("materialized_views", sa.Column("writer_attempt", sa.Integer))
