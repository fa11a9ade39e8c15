"""Statements of whose end the hooks of a lost driver have not heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "pending_hook_calls",
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("session_id", _ID, nullable=False),
        sa.PrimaryKeyConstraint("statement_id", name="untold_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"], ["statements.id"], name="untold_statement_id_exists"
        ),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="untold_session_id_exists"),
    )
    op.create_index("untold_by_session", "pending_hook_calls", ["session_id"])
