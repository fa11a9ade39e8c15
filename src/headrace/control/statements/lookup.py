"""Finding statements."""

from __future__ import annotations

from headrace.errors import StatementNotFound
from headrace.model.statement import Statement
from headrace.store import statements
from headrace.store.database import Tx


def stored(tx: Tx, statement_id: str) -> Statement:
    """One statement, whoever owns it. Raises StatementNotFound."""
    statement = statements.get(tx, statement_id)
    if statement is None:
        raise StatementNotFound(f"There is no statement {statement_id!r}.")
    return statement


def find(tx: Tx, owner: str, statement_id: str) -> Statement:
    """One statement of the owner's. Raises StatementNotFound."""
    statement = statements.get(tx, statement_id)
    if statement is None or statement.owner != owner:
        raise StatementNotFound(f"There is no statement {statement_id!r}.")
    return statement
