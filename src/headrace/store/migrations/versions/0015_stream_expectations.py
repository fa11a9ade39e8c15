"""What streaming queries have counted for their expectations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0011"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table."""
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
