"""Names of sessions, for lists of their statements."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import bindparam, select

from headrace.store.database import Tx
from headrace.store.tables import sessions

_NAMES = select(sessions.c.id, sessions.c.name).where(
    sessions.c.id.in_(bindparam("sessions", expanding=True)), sessions.c.name.is_not(None)
)


def find_names(tx: Tx, session_ids: Collection[str]) -> dict[str, str]:
    """Return the names of those of the sessions that have one, by id."""
    return {row.id: row.name for row in tx.execute(_NAMES, {"sessions": [*session_ids]})}
