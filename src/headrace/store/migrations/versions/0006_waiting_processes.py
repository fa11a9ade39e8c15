"""Processes that wait for changes, so that wake-ups are sent only to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
oldest_code = "0004"


def upgrade() -> None:
    """Add the columns. Code that does not write them reads the store once a second instead."""
    op.add_column("sessions", sa.Column("link_process", sa.Text))
    op.add_column("statements", sa.Column("awaited_by", sa.Text))
    op.add_column("nodes", sa.Column("event_process", sa.Text))
