"""Time limits: close idle and old sessions, and end statements that wait or run for too long."""

from __future__ import annotations

import logging

from headrace.control.context import NodeContext
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.sessions.ending import close_session
from headrace.errors import StatementTimeout
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.session import Session
from headrace.model.statement import CancelReason
from headrace.store import transactions
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.sessions.sessions import CloseRule
from headrace.store.statements import statement_transitions
from headrace.store.statements.time_limits import timed_out

_LOG = logging.getLogger("headrace.expiry")
_BATCH = 100


class Expiry:
    """Applies the time limits of the whole store. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._node_id = context.node_id

    def run(self) -> None:
        """Close sessions and time out statements. Only the clock of the database decides."""
        for name, rule in sessions.CLOSE_RULES.items():
            with isolate_errors(f"the {name} could not be checked"):
                self._close_all(rule)
        with isolate_errors("the timeouts of statements could not be checked"):
            self._time_out_late()

    def _close_all(self, rule: CloseRule) -> None:
        with self._database.read() as tx:
            found = sessions.list_to_close(tx, rule, _BATCH)
        for session in found:
            reason = rule.describe(session)
            with isolate_errors(f"session {session.id} is {reason} and could not be closed"):
                self._close(session, rule, reason)

    def _time_out_late(self) -> None:
        with self._database.read() as tx:
            late = timed_out(tx, _BATCH)
        for statement_id, state in late:
            with isolate_errors(f"statement {statement_id} could not be timed out"):
                self._time_out(statement_id, state)

    def _close(self, session: Session, rule: CloseRule, reason: str) -> None:
        with self._database.write("session.expire") as tx:
            # With the lock, a concurrent submit either commits before the close or is refused.
            sessions.lock(tx, session.id)
            if not sessions.must_close(tx, rule, session.id):
                return
            close_session(tx, session.id, actor=self._node_id, reason=reason)
        _LOG.info("session %s: closed: %s", session.id, reason)

    def _time_out(self, statement_id: str, state: StatementState) -> None:
        with self._database.write("statement.time_out") as tx:
            # Meanwhile a driver may have claimed the statement, or a takeover may have released it.
            if statement_transitions.lock(tx, statement_id) is not state:
                return
            if transactions.is_past_cancelling(tx, statement_id, state):
                return
            if state is StatementState.WAITING:
                applied = self._end_waiting(tx, statement_id)
            else:
                applied = self._request_stop(tx, statement_id)
        if applied:
            _LOG.info("statement %s: timed out while %s", statement_id, state)

    def _end_waiting(self, tx: Tx, statement_id: str) -> bool:
        failure = Failure.of(StatementTimeout("The statement waited longer than queue_timeout."))
        return statement_transitions.transition(
            tx, statement_id, StatementState.TIMEOUT, actor=self._node_id, failure=failure
        )

    def _request_stop(self, tx: Tx, statement_id: str) -> bool:
        """Request a cancel. The statement times out when its driver has stopped the work."""
        state = statement_transitions.request_cancel(
            tx, statement_id, actor=self._node_id, reason=CancelReason.TIMEOUT
        )
        return state is StatementState.CANCELLING
