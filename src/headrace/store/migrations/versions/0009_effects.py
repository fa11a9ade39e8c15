"""Statements without effects run again after the loss of their driver."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
oldest_code = "0004"


def upgrade() -> None:
    """Add the column. A node that does not know it assumes effects."""
    column = sa.Column("may_have_effects", sa.Boolean, nullable=False, server_default=sa.true())
    op.add_column("statements", column)
