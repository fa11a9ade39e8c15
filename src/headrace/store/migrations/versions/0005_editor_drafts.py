"""Drafts of editors, and digests of the texts of statements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
oldest_code = "0003"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table of drafts, and the column of digests."""
    op.create_table(
        "editor_drafts",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("connection_id", _ID),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="editor_drafts_key"),
    )
    op.create_index("editor_drafts_by_owner", "editor_drafts", ["owner", "updated_at", "id"])
    op.create_index("editor_drafts_by_use", "editor_drafts", ["updated_at"])
    op.add_column("statements", sa.Column("text_digest", sa.Text))
