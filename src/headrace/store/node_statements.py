"""Statements of kind `local`, which a node executes without a driver."""

from __future__ import annotations

from sqlalchemy import exists, select

from headrace.model.lifecycle import StatementState
from headrace.model.session import SessionKind
from headrace.store.database import Tx
from headrace.store.tables import statements

_earlier = statements.alias("earlier")
_RUNNABLE = select(statements.c.id).where(
    statements.c.ended_at.is_(None),
    statements.c.kind == SessionKind.LOCAL,
    statements.c.state == StatementState.WAITING,
    ~exists().where(
        _earlier.c.session_id == statements.c.session_id,
        _earlier.c.ended_at.is_(None),
        _earlier.c.ordinal < statements.c.ordinal,
    ),
)
_ORDER = (statements.c.session_id, statements.c.ordinal)


def runnable(tx: Tx, session_id: str | None, limit: int) -> list[str]:
    """Return the ids of at most `limit` local statements with no live statement before them.

    Args:
        session_id: Only statements of this session; None: of all sessions.
    """
    query = _RUNNABLE
    if session_id is not None:
        query = query.where(statements.c.session_id == session_id)
    return list(tx.execute(query.order_by(*_ORDER).limit(limit)).scalars())
