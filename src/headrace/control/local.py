"""Statements that a node does by itself, each in one transaction: done wholly or not at all."""

from __future__ import annotations

from headrace.control import cancel
from headrace.control.sessions import bury
from headrace.control.statements import find, stored
from headrace.errors import HeadraceError, StoreUnavailable
from headrace.grammar.local import parse_local
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.result import ResultReport
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.results.small import text_rows
from headrace.settings import Settings
from headrace.store import changes, local, sessions
from headrace.store.database import Database, Tx


class Locals:
    """Runs local statements when their turn has come; any node may."""

    def __init__(self, database: Database, settings: Settings, *, node_id: str) -> None:
        self._database = database
        self._node_id = node_id
        self._retention = settings.results.retention.total_seconds()

    def run_due(self, session_id: str | None = None) -> None:
        """Runs every local statement before which nothing of its session is live any more."""
        with self._database.read() as tx:
            found = local.due(tx, session_id, 100)
        for statement_id in found:
            with self._database.write() as tx:
                # Locked before anything is done: another node may have found it as well.
                if changes.lock(tx, statement_id) is StatementState.WAITING:
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
        changes.transition(
            tx,
            statement.id,
            StatementState.FAILED if failure else StatementState.SUCCESS,
            who=self._node_id,
            failure=failure,
            result=result,
            result_seconds=self._retention,
        )
        session = sessions.get(tx, statement.session_id)
        if session is not None and session.kind is SessionKind.LOCAL:
            sessions.transition(tx, session.id, SessionState.CLOSING, who=self._node_id)
            bury(tx, session.id, who=self._node_id)


def _done(tx: Tx, statement: Statement) -> ResultReport:
    asked = parse_local(statement.text)
    target = find(tx, statement.owner, asked.statement_id)
    cancel.request(tx, target, who=statement.owner)
    state = find(tx, statement.owner, target.id).state
    return text_rows(["statement", "state"], [[target.id, state]])
