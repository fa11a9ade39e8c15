"""Results that drivers hold in memory, and processes that wait for changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
oldest_code = "0004"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns.

    Code that does not know the holder of a result reads the result as `stored`, with files that do
    not exist. Code that does not write the processes reads the store once a second instead.
    """
    op.add_column("sessions", sa.Column("flight_host", sa.Text))
    op.add_column("sessions", sa.Column("flight_secret", sa.Text))
    op.add_column("results", sa.Column("holder_session_id", _ID))
    op.add_column("results", sa.Column("holder_epoch", sa.Integer))
    op.add_column("results", sa.Column("endpoint", sa.Text))
    op.add_column("results", sa.Column("gone_reason", sa.Text))
    op.add_column("sessions", sa.Column("link_process", sa.Text))
    op.add_column("statements", sa.Column("awaited_by", sa.Text))
    op.add_column("nodes", sa.Column("event_process", sa.Text))
