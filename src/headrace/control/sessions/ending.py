"""The end of sessions, inside a transaction."""

from __future__ import annotations

import contextlib

from headrace.control.context import NodeContext
from headrace.control.periodic_tasks import isolate_errors
from headrace.errors import Committing, SessionClosed
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState
from headrace.model.statement import CancelReason
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_queue, statement_transitions, statements
from headrace.store.streams import stream_transitions


def close_session(tx: Tx, session_id: str, *, actor: str, reason: str | None = None) -> None:
    """Move a session to `closing`, and on to `dead` if it has no driver.

    Do nothing if the session is closing or has ended.

    Waiting statements are cancelled, and cancels are requested for statements in flight. Of a long
    queue, only the first chunk is cancelled here: the periodic task of `Closings` cancels the rest.
    """
    detail = {"reason": reason} if reason else None
    # This locks the session. Only then is its lease read: a takeover may have ended it meanwhile.
    if not sessions.transition(tx, session_id, SessionState.CLOSING, actor=actor, detail=detail):
        return
    stream_transitions.stop_all(tx, session_id, actor=actor)
    for statement_id in statements.in_flight_ids(tx, session_id):
        # A table that is being published is not cancelled: the driver may finish it.
        with contextlib.suppress(Committing):
            statement_transitions.request_cancel(
                tx, statement_id, actor=actor, reason=CancelReason.CLOSED
            )
    if takeovers.closing_has_driver(tx, session_id):
        cancel_queue(tx, session_id, actor=actor)
    else:
        finish_close(tx, session_id, actor=actor)


def cancel_queue(tx: Tx, session_id: str, *, actor: str) -> bool:
    """Cancel the first chunk of a closing session's waiting statements.

    Return whether the queue is empty now. If it is not, a periodic task continues at once.
    """
    statement_queue.cancel_chunk(tx, session_id, actor=actor, reason=CancelReason.CLOSED)
    is_empty = not statement_queue.exist(tx, session_id)
    if not is_empty:
        tx.wake(LAUNCH)
    return is_empty


def finish_close(tx: Tx, session_id: str, *, actor: str, epoch: int | None = None) -> bool:
    """Move a closing session whose driver is gone to `dead`.

    While statements wait in the session, it only loses its driver and stays `closing`: no session
    ends before its statements. A periodic task then continues.

    Return whether the change was applied. It is not if the session has another state or epoch.
    """
    if not takeovers.lock_closing(tx, session_id, epoch=epoch):
        return False
    if not cancel_queue(tx, session_id, actor=actor):
        takeovers.release_closing(tx, session_id)
        return True
    sessions.transition(tx, session_id, SessionState.DEAD, actor=actor)
    closed = Failure.of(SessionClosed("The session was closed before the statement ended."))
    statement_transitions.end_all_statements(tx, session_id, actor=actor, failure=closed)
    stream_transitions.end_all(tx, session_id, actor=actor)
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
        stream_transitions.end_all(tx, session_id, actor=actor, failure=failure)
    return applied


_BATCH = 100
_CHUNKS = 20
"""Largest number of chunks in one round, so that the other periodic tasks also run."""


class Closings:
    """Ends closing sessions and their queues. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._node_id = context.node_id

    def run(self) -> None:
        """Cancel the waiting statements of closing sessions, then end sessions without a driver."""
        with self._database.read() as tx:
            pending = takeovers.list_closing(tx, _BATCH)
        chunks = 0
        for session_id in pending:
            with isolate_errors(f"the closing session {session_id} could not be ended"):
                while chunks < _CHUNKS and not self._cancel_chunk(session_id):
                    chunks += 1

    def _cancel_chunk(self, session_id: str) -> bool:
        """Cancel one chunk of a queue; return whether nothing remains to be cancelled."""
        with self._database.write("session.cancel_queue") as tx:
            if not takeovers.lock_closing(tx, session_id):
                return True
            is_empty = cancel_queue(tx, session_id, actor=self._node_id)
            if is_empty and not takeovers.closing_has_driver(tx, session_id):
                finish_close(tx, session_id, actor=self._node_id)
            return is_empty
