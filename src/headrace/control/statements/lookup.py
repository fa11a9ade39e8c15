"""Statements by id, inside a transaction."""

from __future__ import annotations

from headrace.errors import StatementNotFound
from headrace.model.statement import Statement
from headrace.store import statements
from headrace.store.database import Tx


def get_statement(tx: Tx, statement_id: str) -> Statement:
    """Return a statement of any owner. Raise StatementNotFound if it does not exist."""
    statement = statements.get(tx, statement_id)
    if statement is None:
        raise StatementNotFound(f"Statement {statement_id!r} does not exist.")
    return statement


def get_owned_statement(tx: Tx, owner: str, statement_id: str) -> Statement:
    """Return a statement of this owner. Raise StatementNotFound for any other statement."""
    statement = get_statement(tx, statement_id)
    if statement.owner != owner:
        raise StatementNotFound(f"Statement {statement_id!r} does not exist.")
    return statement
