"""Ending what is over its time: idle and aged sessions, statements that wait or run too long."""

from __future__ import annotations

import logging

from headrace.control.sessions.service import close_session
from headrace.errors import StatementTimeout
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.session import Session
from headrace.model.statement import CancelReason
from headrace.store import sessions, statement_transitions, transactions
from headrace.store.database import Database
from headrace.store.timeouts import timed_out

_LOG = logging.getLogger("headrace.expiry")
_BATCH = 100


class Expiry:
    """Sweeps the whole store; any number of nodes may do so at once."""

    def __init__(self, database: Database, *, node_id: str) -> None:
        self._database = database
        self._node_id = node_id

    def sweep(self) -> None:
        """One round: what ends here is decided by the database's clock alone."""
        with self._database.read() as tx:
            idle = sessions.idle(tx, _BATCH)
            aged = sessions.aged(tx, _BATCH)
            late = timed_out(tx, _BATCH)
        for session in idle:
            self._close(session, f"idle for {session.idle_seconds:g} s", if_idle=True)
        for session in aged:
            self._close(session, f"older than {session.ttl_seconds:g} s", if_idle=False)
        for statement_id, state in late:
            self._time_out(statement_id, state)

    def _close(self, session: Session, reason: str, *, if_idle: bool) -> None:
        with self._database.write() as tx:
            # A submit may have come meanwhile: locked, it has either landed or will be refused.
            sessions.lock(tx, session.id)
            if if_idle and not sessions.is_idle(tx, session.id):
                return
            known = sessions.get(tx, session.id)
            if known is None or known.state is not session.state:
                return
            close_session(tx, known, actor=self._node_id, reason=reason)
        _LOG.info("session %s: closed: %s", session.id, reason)

    def _time_out(self, statement_id: str, state: StatementState) -> None:
        with self._database.write() as tx:
            # A driver may have taken it up meanwhile, or lost it.
            if statement_transitions.lock(tx, statement_id) is not state:
                return
            if transactions.is_past_cancelling(tx, statement_id, state):
                return
            if state is StatementState.WAITING:
                failure = Failure.of(
                    StatementTimeout("It waited for longer than its queue_timeout.")
                )
                applied = statement_transitions.transition(
                    tx, statement_id, StatementState.TIMEOUT, actor=self._node_id, failure=failure
                )
            else:
                # Its driver stops the work first; then it is out of time.
                applied = (
                    statement_transitions.request_cancel(
                        tx, statement_id, actor=self._node_id, reason=CancelReason.TIMEOUT
                    )
                    is StatementState.CANCELLING
                )
        if applied:
            _LOG.info("statement %s: out of time while %s", statement_id, state)
