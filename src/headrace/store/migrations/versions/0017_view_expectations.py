"""What refreshes of materialized views have counted for the expectations of the view."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "view_expectations",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("view_id", _ID, nullable=False),
        sa.Column("counts", sa.JSON),
        sa.PrimaryKeyConstraint("statement_id", name="view_expectations_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"],
            ["statements.id"],
            name="view_expectations_statement_id_exists",
            ondelete="CASCADE",
        ),
    )
    op.create_index("view_expectations_by_view", "view_expectations", ["view_id", "statement_id"])
