"""Tables that statements read and write."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0007"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Create the table of lineage."""
    op.create_table(
        "lineage",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("table_use", sa.JSON, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("statement_id", "position", name="lineage_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"],
            ["statements.id"],
            name="lineage_statement_id_exists",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("direction IN ('read', 'write')", name="lineage_known_direction"),
    )
    op.create_index("lineage_by_table", "lineage", ["table_key", "direction", "statement_id"])
