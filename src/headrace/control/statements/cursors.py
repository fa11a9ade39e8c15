"""Positions in results, for front ends whose clients keep none."""

from __future__ import annotations

from headrace.control.context import NodeContext
from headrace.control.policy import Action, Caller
from headrace.control.statements.lookup import check_permitted
from headrace.errors import NotPermitted
from headrace.model.connection import Cursor
from headrace.model.statement import Statement
from headrace.store.statements import cursors


class Cursors:
    """Positions of all clients. Any node continues from them."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def find(self, caller: Caller, statement: Statement) -> Cursor | None:
        """Return the position in the rows of a statement; None if nothing has been read.

        Raise StatementNotFound and NotPermitted as `Statements.open_result`.
        """
        check_permitted(caller, statement, statement.id, Action.READ_CONTENT)
        with self._database.read() as tx:
            return cursors.find(tx, statement.id)

    def save(
        self, caller: Caller, statement: Statement, cursor: Cursor, *, previous: Cursor | None
    ) -> bool:
        """Store a position, and return True, if `previous` is what `find` still returns.

        Raise as `find`, and NotPermitted for a statement of another owner, whatever the caller may
        read: the client of the owner would miss the rows.
        """
        check_permitted(caller, statement, statement.id, Action.READ_CONTENT)
        if statement.owner not in caller.owners:
            raise NotPermitted(
                f"Statement {statement.id} belongs to another owner, whose client reads its rows.",
                hint=f"Read them by their position: GET /api/v1/statements/{statement.id}/result.",
            )
        with self._database.write("statement.read") as tx:
            return cursors.save(tx, statement.id, cursor, previous=previous)
