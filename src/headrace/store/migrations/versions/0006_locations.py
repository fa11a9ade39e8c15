"""One table of a catalog at a time is published in a LOCATION."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_PUBLISHING = sa.text("state = 'committing'")


def upgrade() -> None:
    op.add_column("transactions", sa.Column("location", sa.Text))
    op.create_index(
        "transactions_moving_in",
        "transactions",
        ["identity", "location"],
        unique=True,
        sqlite_where=_PUBLISHING,
        postgresql_where=_PUBLISHING,
    )
