"""Statements by id, inside a transaction."""

from __future__ import annotations

from headrace.errors import StatementNotFound
from headrace.model.ids import looks_like_id
from headrace.model.statement import Statement
from headrace.store import statements
from headrace.store.database import Tx

_SHOWN = 200
"""Largest number of characters of an id in a message."""


def get_statement(tx: Tx, statement_id: str) -> Statement:
    """Return a statement of any owner. Raise StatementNotFound if it does not exist."""
    # Text without the form of an id may be such that PostgreSQL refuses it.
    statement = statements.get(tx, statement_id) if looks_like_id(statement_id) else None
    if statement is None:
        raise StatementNotFound(f"Statement {statement_id[:_SHOWN]!r} does not exist.")
    return statement


def get_owned_statement(tx: Tx, owner: str, statement_id: str) -> Statement:
    """Return a statement of this owner. Raise StatementNotFound for any other statement."""
    statement = get_statement(tx, statement_id)
    if statement.owner != owner:
        raise StatementNotFound(f"Statement {statement_id!r} does not exist.")
    return statement
