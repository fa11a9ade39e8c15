"""The last hours of streaming queries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_PARTS = (
    "latest_offset",
    "get_batch",
    "query_planning",
    "wal_commit",
    "add_batch",
    "commit_offsets",
)


def upgrade() -> None:
    """Create the table of minutes."""
    op.create_table(
        "stream_minutes",
        sa.Column("query_id", _ID, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("minute", sa.BigInteger, nullable=False),
        sa.Column("batches", sa.BigInteger, nullable=False),
        sa.Column("input_rows", sa.BigInteger, nullable=False),
        sa.Column("milliseconds", sa.BigInteger, nullable=False),
        sa.Column("slowest_milliseconds", sa.BigInteger, nullable=False),
        *(sa.Column(part, sa.BigInteger, nullable=False) for part in _PARTS),
        sa.Column("watermark_gap", sa.BigInteger),
        sa.Column("backlog", sa.BigInteger),
        sa.Column("state_rows", sa.BigInteger, nullable=False),
        sa.Column("state_bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "slot", name="stream_minutes_key"),
        sa.ForeignKeyConstraint(
            ["query_id"],
            ["stream_queries.id"],
            name="stream_minutes_query_id_exists",
            ondelete="CASCADE",
        ),
    )
