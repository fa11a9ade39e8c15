"""Pool sessions, which run the statements that name no session."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
oldest_code = "0004"


def upgrade() -> None:
    """Add the column, and the index that permits one open pool session per owner and profile.

    A node or driver that does not know the column runs the statements of a pool session one after
    another in one Spark session.
    """
    pool = sa.Column("pool", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("sessions", pool)
    is_open = sa.text("pool AND ended_at IS NULL AND state <> 'closing'")
    op.create_index(
        "sessions_pool",
        "sessions",
        ["owner", "profile"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
