"""Statements that a node executes itself, each in one transaction."""

from __future__ import annotations

from headrace.control.context import NodeContext
from headrace.control.policy import Caller
from headrace.control.sessions.ending import finish_close
from headrace.control.statements.cancel import request_cancel
from headrace.control.streams import commands as stream_commands
from headrace.control.views import commands as view_commands
from headrace.errors import HeadraceError, StoreUnavailable
from headrace.grammar.materialized_views import (
    MaterializedViewStatement,
    ShowMaterializedViews,
)
from headrace.grammar.parse import CancelStatement, parse
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.result import ResultReport
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.results.node_result import make_text_result
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.statements import statement_transitions


class NodeStatements:
    """Executes statements of kind `local` in the transaction that submits them.

    They touch no state of their session. Therefore they do not wait for its other statements:
    `CANCEL STATEMENT` in a busy session cancels the statement that keeps the session busy.
    """

    def __init__(self, context: NodeContext) -> None:
        self._settings = context.settings
        self._node_id = context.node_id
        self._retention_seconds = context.retention_seconds

    def execute(self, tx: Tx, caller: Caller, statement: Statement) -> None:
        """Execute a statement of the caller and end it.

        A session that exists only for the statement ends too.
        """
        result, failure = None, None
        try:
            result = self._execute_command(tx, caller, statement)
        except StoreUnavailable:
            raise
        except HeadraceError as error:
            failure = Failure.with_hint(error)
        statement_transitions.transition(
            tx,
            statement.id,
            StatementState.FAILED if failure else StatementState.SUCCESS,
            actor=self._node_id,
            failure=failure,
            result=result,
            result_seconds=self._retention_seconds,
        )
        session = sessions.get(tx, statement.session_id)
        if session is not None and session.kind is SessionKind.LOCAL:
            sessions.transition(tx, session.id, SessionState.CLOSING, actor=self._node_id)
            finish_close(tx, session.id, actor=self._node_id)

    def _execute_command(self, tx: Tx, caller: Caller, statement: Statement) -> ResultReport:
        command = parse(statement.spec.text).command
        if isinstance(command, CancelStatement):
            return _cancel_statement(tx, caller, command)
        if isinstance(command, MaterializedViewStatement | ShowMaterializedViews):
            return view_commands.execute(tx, caller, statement, command)
        assert command is not None
        return stream_commands.execute(tx, self._settings, caller, statement, command)


def _cancel_statement(tx: Tx, caller: Caller, command: CancelStatement) -> ResultReport:
    target = request_cancel(tx, caller, command.statement_id)
    return make_text_result(["statement", "state"], [[target.id, target.state]])
