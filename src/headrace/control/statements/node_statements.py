"""Statements that a node does by itself, each in one transaction: done wholly or not at all."""

from __future__ import annotations

from headrace.control.sessions.service import finish_close
from headrace.control.statements import cancel
from headrace.control.statements.lookup import find, stored
from headrace.errors import HeadraceError, StoreUnavailable
from headrace.grammar.local import parse_local
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.result import ResultReport
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.results.node_result import make_text_result
from headrace.settings import Settings
from headrace.store import node_statements, sessions, statement_transitions
from headrace.store.database import Database, Tx


class NodeStatements:
    """Runs local statements when their turn has come; any node may."""

    def __init__(self, database: Database, settings: Settings, *, node_id: str) -> None:
        self._database = database
        self._node_id = node_id
        self._retention = settings.results.retention.total_seconds()

    def run_due(self, session_id: str | None = None) -> None:
        """Runs every local statement before which nothing of its session is live any more."""
        with self._database.read() as tx:
            found = node_statements.runnable(tx, session_id, 100)
        for statement_id in found:
            with self._database.write() as tx:
                # Locked before anything is done: another node may have found it as well.
                if statement_transitions.lock(tx, statement_id) is StatementState.WAITING:
                    self.run(tx, stored(tx, statement_id))

    def run(self, tx: Tx, statement: Statement) -> None:
        """Does what the statement says, and ends it and a session that was made for it."""
        result, failure = None, None
        try:
            result = _done(tx, statement)
        except StoreUnavailable:
            raise
        except HeadraceError as error:
            failure = Failure.of(error)
        statement_transitions.transition(
            tx,
            statement.id,
            StatementState.FAILED if failure else StatementState.SUCCESS,
            actor=self._node_id,
            failure=failure,
            result=result,
            result_seconds=self._retention,
        )
        session = sessions.get(tx, statement.session_id)
        if session is not None and session.kind is SessionKind.LOCAL:
            sessions.transition(tx, session.id, SessionState.CLOSING, actor=self._node_id)
            finish_close(tx, session.id, actor=self._node_id)


def _done(tx: Tx, statement: Statement) -> ResultReport:
    asked = parse_local(statement.text)
    target = find(tx, statement.owner, asked.statement_id)
    cancel.request(tx, target, actor=statement.owner)
    state = find(tx, statement.owner, target.id).state
    return make_text_result(["statement", "state"], [[target.id, state]])
