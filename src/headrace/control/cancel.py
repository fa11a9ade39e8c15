"""Cancelling a statement: a durable request that its driver answers."""

from __future__ import annotations

from headrace.errors import AlreadyEnded, StatementNotFound
from headrace.model.lifecycle import STATEMENT
from headrace.model.statement import Statement
from headrace.store import statements
from headrace.store.database import Database, Tx


def find(tx: Tx, owner: str, statement_id: str) -> Statement:
    """One statement of the owner's. Raises StatementNotFound."""
    statement = statements.get(tx, statement_id)
    if statement is None or statement.owner != owner:
        raise StatementNotFound(f"There is no statement {statement_id!r}.")
    return statement


def cancel(database: Database, owner: str, statement_id: str) -> Statement:
    """`waiting` ends at once; what a driver has in hand becomes `cancelling` first.

    Asking again while it is cancelling is no error. Raises StatementNotFound, and AlreadyEnded,
    which says how it ended.
    """
    with database.write() as tx:
        statement = find(tx, owner, statement_id)
        if statement.state in STATEMENT.terminal:
            raise AlreadyEnded(
                f"Statement {statement_id} cannot be cancelled: it has ended, {statement.state}."
            )
        statements.request_cancel(tx, statement_id, who=owner)
        return find(tx, owner, statement_id)
