"""Statements by id, inside a transaction."""

from __future__ import annotations

from headrace.errors import StatementNotFound
from headrace.model.statement import Statement
from headrace.model.text import looks_like_id
from headrace.store.database import Tx
from headrace.store.statements import statements

_SHOWN = 200
"""Largest number of characters of an id in a message."""


def get_statement(tx: Tx, statement_id: str) -> Statement:
    """Return a statement of any owner. Raise StatementNotFound if it does not exist."""
    # Text without the form of an id may be such that PostgreSQL refuses it.
    statement = statements.get(tx, statement_id) if looks_like_id(statement_id) else None
    if statement is None:
        raise _not_found(statement_id)
    return statement


def get_owned_statement(tx: Tx, owner: str, statement_id: str) -> Statement:
    """Return a statement of this owner. Raise StatementNotFound for any other statement."""
    return check_owner(get_statement(tx, statement_id), owner, statement_id)


def check_owner(statement: Statement | None, owner: str, statement_id: str) -> Statement:
    """Return the statement with this id. Raise StatementNotFound unless it is of this owner."""
    if statement is None or statement.owner != owner:
        raise _not_found(statement_id)
    return statement


def _not_found(statement_id: str) -> StatementNotFound:
    return StatementNotFound(f"Statement {statement_id[:_SHOWN]!r} does not exist.")
