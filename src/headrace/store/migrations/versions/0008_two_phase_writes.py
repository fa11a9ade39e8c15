"""Transactions of writes: appends to one table commit beside each other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
oldest_code = "0004"

_INDEXES = {
    "transactions_publishing_target": "target",
    "transactions_publishing_location": "location",
}


def upgrade() -> None:
    """Add the column, and exclude these transactions from the indexes.

    A node that does not know the column lets appends commit one after another.
    """
    shares_target = sa.Column(
        "shares_target", sa.Boolean, nullable=False, server_default=sa.false()
    )
    op.add_column("transactions", shares_target)
    is_publishing = sa.text("state = 'committing' AND NOT shares_target")
    for name, column in _INDEXES.items():
        op.drop_index(name, "transactions")
        op.create_index(
            name,
            "transactions",
            ["identity", column],
            unique=True,
            sqlite_where=is_publishing,
            postgresql_where=is_publishing,
        )
