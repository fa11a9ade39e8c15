"""Users, tokens, audit, quotas. A store of 0.1.0 belongs to the user who runs the node."""

from __future__ import annotations

import os
import pwd

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
oldest_code = "0001"

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ONLY_OWNER = "anonymous"
"""Owner of all objects in version 0.1.0. Names of folders contain it: it stays the user's id."""


def upgrade() -> None:
    """Create the tables, and the user who owns what is there."""
    op.create_table(
        "users",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("issued_at", sa.Float),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("seen_at", _INSTANT, nullable=False),
        sa.Column("disabled_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="users_key"),
        sa.UniqueConstraint("source", "subject", name="users_subject"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", _ID, nullable=False),
        sa.Column("secret_hash", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.Column("last_used_at", _INSTANT),
        sa.Column("ended_at", _INSTANT),
        sa.PrimaryKeyConstraint("id", name="tokens_key"),
        sa.CheckConstraint("scope IN ('read', 'submit', 'admin')", name="tokens_known_scope"),
        sa.CheckConstraint("state IN ('live', 'revoked')", name="tokens_known_state"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'revoked')", name="tokens_ended"),
    )
    op.create_index("tokens_by_owner", "tokens", ["owner", "id"])
    op.create_index("tokens_expired", "tokens", ["expires_at"])
    is_live = sa.text("ended_at IS NULL")
    op.create_index(
        "tokens_live_name",
        "tokens",
        ["owner", "name"],
        unique=True,
        sqlite_where=is_live,
        postgresql_where=is_live,
    )
    op.create_table(
        "audit",
        sa.Column("id", _ID, nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("node_id", sa.Text, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("actor", sa.Text),
        sa.Column("token_id", sa.Text),
        sa.Column("address", sa.Text),
        sa.Column("target", sa.Text),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="audit_key"),
    )
    for column in ("actor", "target", "action"):
        op.create_index(f"audit_by_{column}", "audit", [column, "id"])
    op.create_index("audit_by_time", "audit", ["at"])
    op.create_table(
        "sign_in_failures",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("free_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", "address", name="sign_in_failures_key"),
    )
    op.create_index("sign_in_failures_by_age", "sign_in_failures", ["free_at"])
    op.create_table(
        "submit_rates",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("full_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="submit_rates_key"),
    )
    op.create_table(
        "fair_shares",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("start", sa.Float, nullable=False),
        sa.Column("finish", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="fair_shares_key"),
    )
    op.execute("INSERT INTO limit_locks (counted) VALUES ('streams')")
    # A node registers at its first start: the store is one of version 0.1.0, which may still run.
    if _has_rows("nodes"):
        _insert_user()


def _has_rows(table: str) -> bool:
    return op.get_bind().execute(sa.text(f"SELECT 1 FROM {table} LIMIT 1")).first() is not None  # noqa: S608 - the names are constants


def _insert_user() -> None:
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a user that its files do not know
        name = str(uid)
    now = "headrace_clock()" if op.get_bind().dialect.name == "sqlite" else "clock_timestamp()"
    insert = sa.text(
        "INSERT INTO users (id, source, subject, name, groups, created_at, seen_at)"  # noqa: S608 - `now` is one of two constants
        f" VALUES (:id, 'os', 'node', :name, '[]', {now}, {now})"
    )
    op.get_bind().execute(insert, {"id": _ONLY_OWNER, "name": name})
