"""Closing sessions that the transaction of the close cannot end: the queue may be too long."""

from __future__ import annotations

from sqlalchemy import exists, or_, select, update

from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.result import GoneReason
from headrace.store import results
from headrace.store.database import Tx
from headrace.store.tables import sessions, statements, transactions

_IS_CLOSING = sessions.c.state == SessionState.CLOSING
_HAS_WAITING = exists().where(
    statements.c.session_id == sessions.c.id,
    statements.c.ended_at.is_(None),
    statements.c.state == StatementState.WAITING,
    # A statement whose table is being published ends with its session.
    ~exists().where(
        transactions.c.statement_id == statements.c.id, transactions.c.ended_at.is_(None)
    ),
)


def list_pending(tx: Tx, limit: int) -> list[str]:
    """Return the ids of at most `limit` closing sessions that a node must work on.

    Statements still wait in these sessions, or they have no driver that could end them.
    """
    needs_work = or_(sessions.c.lease_until.is_(None), _HAS_WAITING)
    query = select(sessions.c.id).where(sessions.c.ended_at.is_(None), _IS_CLOSING, needs_work)
    return list(tx.execute(query.order_by(sessions.c.id).limit(limit)).scalars())


def lock(tx: Tx, session_id: str, *, epoch: int | None = None) -> bool:
    """Lock a session if it is closing.

    Args:
        epoch: Lock it only if this is its current epoch; None: in any epoch.

    Returns:
        Whether the session was locked.
    """
    query = select(sessions.c.id).where(sessions.c.id == session_id, _IS_CLOSING)
    if epoch is not None:
        query = query.where(sessions.c.epoch == epoch)
    return tx.execute(query.with_for_update()).one_or_none() is not None


def has_driver(tx: Tx, session_id: str) -> bool:
    """Return whether a driver of the session may still act."""
    query = select(sessions.c.id).where(
        sessions.c.id == session_id, sessions.c.lease_until.is_not(None)
    )
    return tx.execute(query).one_or_none() is not None


def release(tx: Tx, session_id: str) -> None:
    """Release a session from its driver, which is gone. A later call of that driver is fenced."""
    names = ("lease_until", "fenced_driver", "handle", "token_hash", "flight_secret")
    results.mark_held_gone(tx, session_id, GoneReason.SESSION_CLOSED)
    driverless = update(sessions).where(sessions.c.id == session_id, _IS_CLOSING)
    tx.execute(driverless.values(epoch=sessions.c.epoch + 1, **dict.fromkeys(names)))
