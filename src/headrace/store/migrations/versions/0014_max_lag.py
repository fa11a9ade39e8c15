"""The `max-lag` of schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
oldest_code = "0003"


def upgrade() -> None:
    """Add the column."""
    op.add_column("job_schedules", sa.Column("max_lag", sa.Float))
    has_lag = sa.text("max_lag IS NOT NULL")
    op.create_index(
        "job_schedules_of_lag",
        "job_schedules",
        ["job_id"],
        sqlite_where=has_lag,
        postgresql_where=has_lag,
    )
