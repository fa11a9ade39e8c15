"""Cancel requests: durable, and answered by the driver of the statement."""

from __future__ import annotations

from headrace.errors import AlreadyEnded, NotCancellable
from headrace.model.lifecycle import STATEMENT
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.store.database import Tx
from headrace.store.statements import statement_transitions
from headrace.store.streams import stream_queries


def request_cancel(tx: Tx, statement: Statement, *, actor: str, force: bool = False) -> None:
    """Request a cancel. Requesting it again while the statement is cancelling is not an error.

    A waiting statement is cancelled at once; a statement in flight becomes `cancelling` first.

    Args:
        force: Whether a driver that does not stop the statement in time is killed even if other
            work runs in it.

    Raises:
        AlreadyEnded: With the state in which the statement ended.
        NotCancellable: If a node executes the statement itself.
        Committing: If the statement is publishing its table.
    """
    if statement.state in STATEMENT.terminal:
        query = stream_queries.of_statement(tx, statement.id)
        raise AlreadyEnded(
            f"Statement {statement.id} cannot be cancelled: it has ended ({statement.state}).",
            hint=None if query is None else f"To stop its query: STOP STREAM `{query.name}`.",
        )
    if statement.spec.kind is SessionKind.LOCAL:
        raise NotCancellable(
            f"Statement {statement.id} cannot be cancelled: a node executes it in one step."
        )
    statement_transitions.request_cancel(tx, statement.id, actor=actor, force=force)
