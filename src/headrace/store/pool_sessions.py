"""Pool sessions: each runs the statements of its owner that name no session.

An owner has at most one open pool session per profile, which a unique index ensures.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select

from headrace.store.database import Tx
from headrace.store.tables import OPEN_POOL, sessions

_FIND = select(sessions.c.id).where(
    OPEN_POOL, sessions.c.owner == bindparam("caller"), sessions.c.profile == bindparam("wanted")
)


def find_open(tx: Tx, owner: str, profile: str) -> str | None:
    """Return the id of the pool session that accepts statements, or None if there is none."""
    session_id: str | None = tx.execute(_FIND, {"caller": owner, "wanted": profile}).scalar()
    return session_id
