"""Cancelling a statement: a durable request that its driver answers."""

from __future__ import annotations

from headrace.control.statements.lookup import find
from headrace.errors import AlreadyEnded, NotCancellable
from headrace.model.lifecycle import STATEMENT
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.store import statement_transitions
from headrace.store.database import Database, Tx


def cancel(database: Database, owner: str, statement_id: str, *, force: bool = False) -> Statement:
    """`waiting` ends at once; what a driver has in hand becomes `cancelling` first.

    With `force`, a driver that does not stop it in time is killed even when other work runs there.
    Asking again while it is cancelling is no error. Raises StatementNotFound, NotCancellable,
    Committing, and AlreadyEnded, which says how it ended.
    """
    with database.write() as tx:
        statement = find(tx, owner, statement_id)
        request(tx, statement, actor=owner, force=force)
        return find(tx, owner, statement_id)


def request(tx: Tx, statement: Statement, *, actor: str, force: bool = False) -> None:
    """Asks for a cancel.

    Raises AlreadyEnded, NotCancellable for what a node does itself, and Committing for what is
    publishing its table.
    """
    if statement.state in STATEMENT.terminal:
        raise AlreadyEnded(
            f"Statement {statement.id} cannot be cancelled: it has ended, {statement.state}."
        )
    if statement.kind is SessionKind.LOCAL:
        raise NotCancellable(
            f"Statement {statement.id} cannot be cancelled: a node does it by itself, in one step."
        )
    statement_transitions.request_cancel(tx, statement.id, actor=actor, force=force)
