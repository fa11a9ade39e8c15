"""Tables that appear whole or not at all: the journal of their transactions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_STATES = ("prepared", "begun", "committing", "committed", "aborting", "aborted")


def upgrade() -> None:
    op.add_column("statements", sa.Column("atomic", sa.Boolean))
    op.add_column("statements", sa.Column("note", sa.Text))
    op.create_table(
        "transactions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("statement_id", _ID, nullable=False),
        sa.Column("session_id", _ID, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("staged", sa.JSON, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="transactions_key"),
        sa.ForeignKeyConstraint(
            ["statement_id"], ["statements.id"], name="transactions_statement_id_exists"
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="transactions_session_id_exists"
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('committed', 'aborted'))",
            name="transactions_ended",
        ),
        sa.CheckConstraint(
            f"state IN ({', '.join(repr(state) for state in _STATES)})",
            name="transactions_known_state",
        ),
    )
    _index("transactions_live", ["statement_id"], "ended_at IS NULL")
    _index("transactions_publishing", ["identity", "target"], "state = 'committing'", unique=True)
    op.create_index("transactions_by_statement", "transactions", ["statement_id", "id"])


def _index(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    only = sa.text(where)
    op.create_index(
        name, "transactions", columns, unique=unique, sqlite_where=only, postgresql_where=only
    )
