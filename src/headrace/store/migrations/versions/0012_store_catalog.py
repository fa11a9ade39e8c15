"""One store has one catalog: the first node records it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
oldest_code = "0004"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Add the table. A node that does not know it does not compare catalogs."""
    op.create_table(
        "store_catalog",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("keys", sa.JSON, nullable=False),
        sa.Column("place", sa.JSON(none_as_null=True)),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("node_id", _ID, nullable=False),
        sa.Column("recorded_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="store_catalog_key"),
    )
