"""The end of sessions, inside a transaction."""

from __future__ import annotations

import contextlib

from headrace.errors import Committing, SessionClosed
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState
from headrace.model.session import Session
from headrace.model.statement import CancelReason
from headrace.store import sessions, statement_transitions, statements
from headrace.store.database import Tx


def close_session(tx: Tx, session: Session, *, actor: str, reason: str | None = None) -> None:
    """Move a live session to `closing`, and on to `dead` if it has no driver.

    Waiting statements are cancelled, and cancels are requested for statements in flight.
    """
    detail = {"reason": reason} if reason else None
    sessions.transition(tx, session.id, SessionState.CLOSING, actor=actor, detail=detail)
    for statement_id in statements.live_ids(tx, session.id):
        # A table that is being published is finished before the driver is notified of the close.
        with contextlib.suppress(Committing):
            statement_transitions.request_cancel(
                tx, statement_id, actor=actor, reason=CancelReason.CLOSED
            )
    if session.lease_until is None:
        finish_close(tx, session.id, actor=actor)


def finish_close(tx: Tx, session_id: str, *, actor: str, epoch: int | None = None) -> bool:
    """Move a closing session whose driver is gone to `dead`; return whether this was applied."""
    if not sessions.transition(tx, session_id, SessionState.DEAD, actor=actor, epoch=epoch):
        return False
    closed = Failure.of(SessionClosed("The session was closed before the statement ended."))
    statement_transitions.end_all_statements(tx, session_id, actor=actor, failure=closed)
    return True


def fail_session(
    tx: Tx, session_id: str, failure: Failure, *, actor: str, epoch: int | None = None
) -> bool:
    """End a session that cannot continue, with all its live statements.

    A closing session becomes `dead`, any other session `failed`.

    Args:
        epoch: If given, nothing changes unless it is the session's current epoch.

    Returns:
        Whether the change was applied.
    """
    session = sessions.get(tx, session_id)
    if session is not None and session.state is SessionState.CLOSING:
        return finish_close(tx, session_id, actor=actor, epoch=epoch)
    applied = sessions.transition(
        tx, session_id, SessionState.FAILED, actor=actor, epoch=epoch, failure=failure
    )
    if applied:
        waiting = Failure(code="session_failed", message=f"The session failed: {failure.message}")
        statement_transitions.end_all_statements(
            tx, session_id, actor=actor, failure=failure, waiting=waiting
        )
    return applied
