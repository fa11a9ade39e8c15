"""What streaming queries have counted for their expectations, and what they read and write."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
oldest_code = "0003"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "stream_expectations",
        sa.Column("query_id", _ID, nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("query_id", name="stream_expectations_key"),
        sa.ForeignKeyConstraint(
            ["query_id"],
            ["stream_queries.id"],
            name="stream_expectations_query_id_exists",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "stream_lineage",
        sa.Column("query_id", _ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("table_use", sa.JSON, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "position", name="stream_lineage_key"),
        sa.ForeignKeyConstraint(
            ["query_id"],
            ["stream_queries.id"],
            name="stream_lineage_query_id_exists",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("direction IN ('read', 'write')", name="stream_lineage_known_direction"),
    )
    op.create_index(
        "stream_lineage_by_table", "stream_lineage", ["table_key", "direction", "query_id"]
    )
