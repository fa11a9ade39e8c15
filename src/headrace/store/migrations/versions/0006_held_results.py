"""Results that drivers hold in memory."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
oldest_code = "0004"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns of holders.

    Code that does not know them reads such a result as `stored`, with files that do not exist.
    """
    op.add_column("sessions", sa.Column("flight_host", sa.Text))
    op.add_column("sessions", sa.Column("flight_secret", sa.Text))
    op.add_column("results", sa.Column("holder_session_id", _ID))
    op.add_column("results", sa.Column("holder_epoch", sa.Integer))
    op.add_column("results", sa.Column("endpoint", sa.Text))
    op.add_column("results", sa.Column("gone_reason", sa.Text))
