"""Plans and stages of statements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table of executions."""
    op.create_table(
        "statement_executions",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("execution", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("statement_id", name="statement_executions_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"],
            ["statements.id"],
            name="statement_executions_statement_id_exists",
            ondelete="CASCADE",
        ),
    )
