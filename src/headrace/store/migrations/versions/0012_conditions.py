"""Runs whose time has come, and that wait for other conditions of their schedule."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
oldest_code = "0003"


def upgrade() -> None:
    """Add the column."""
    column = sa.Column("awaits_conditions", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("runs", column)
