"""Statements by id, inside a transaction."""

from __future__ import annotations

from headrace.control.caller import Caller
from headrace.control.policy import Action, may
from headrace.errors import StatementNotFound
from headrace.model.ids import looks_like_id
from headrace.model.statement import Statement
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


def get_permitted(
    tx: Tx, caller: Caller, statement_id: str, action: Action = Action.READ
) -> Statement:
    """Return a statement on which the caller may act. Raise StatementNotFound for any other."""
    return check_permitted(caller, get_statement(tx, statement_id), statement_id, action)


def check_permitted(
    caller: Caller, statement: Statement | None, statement_id: str, action: Action = Action.READ
) -> Statement:
    """Return the statement with this id.

    Raise StatementNotFound if there is none, or if the caller may not act on it.
    """
    if statement is None or not may(caller, action, statement):
        raise _not_found(statement_id)
    return statement


def _not_found(statement_id: str) -> StatementNotFound:
    return StatementNotFound(f"Statement {statement_id[:_SHOWN]!r} does not exist.")
