"""Expectations on the rows that runs write, and what was counted for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "run_expectations",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("expectations", sa.JSON, nullable=False),
        sa.Column("counts", sa.JSON),
        sa.PrimaryKeyConstraint("statement_id", name="run_expectations_key"),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="run_expectations_run_id_exists", ondelete="CASCADE"
        ),
    )
    op.create_index("run_expectations_by_run", "run_expectations", ["run_id"])
    op.create_index("run_expectations_by_job", "run_expectations", ["job_id", "statement_id"])
