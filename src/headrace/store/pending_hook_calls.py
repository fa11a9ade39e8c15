"""Hook calls that a lost driver could not make.

When a driver is lost, a node ends its statements, and no hook runs in a node. The next driver of
the session makes these calls before it reports `hello`. The end of the session discards them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select

from headrace.model.pending_hook_call import PendingHookCall
from headrace.store.database import Tx
from headrace.store.tables import pending_hook_calls, statements


def add(tx: Tx, session_id: str, statement_ids: Sequence[str]) -> None:
    """Add a pending call for each of these statements, which have just ended."""
    if statement_ids:
        rows = [
            {"session_id": session_id, "statement_id": statement_id}
            for statement_id in statement_ids
        ]
        tx.execute(insert(pending_hook_calls), rows)


def list_for_session(tx: Tx, session_id: str) -> list[PendingHookCall]:
    """Return the pending calls of a session, in the order of the statements."""
    query = (
        select(
            statements.c.id.label("statement_id"),
            statements.c.text,
            statements.c.attempts.label("attempt"),
            statements.c.state,
            statements.c.failure,
        )
        .join_from(
            pending_hook_calls, statements, statements.c.id == pending_hook_calls.c.statement_id
        )
        .where(pending_hook_calls.c.session_id == session_id)
        .order_by(statements.c.ordinal)
    )
    return [PendingHookCall(**row) for row in tx.execute(query).mappings()]


def remove(tx: Tx, session_id: str, statement_ids: Sequence[str] | None = None) -> None:
    """Remove the pending calls of these statements of a session; None: all of the session."""
    removal = delete(pending_hook_calls).where(pending_hook_calls.c.session_id == session_id)
    if statement_ids is not None:
        removal = removal.where(pending_hook_calls.c.statement_id.in_(statement_ids))
    tx.execute(removal)
