"""Statements that ended while their driver was lost: the hooks there have not heard of it.

The session's next driver tells them, before it says hello. With the session ends their list.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select

from headrace.model.pending_hook_call import PendingHookCall
from headrace.store.database import Tx
from headrace.store.tables import pending_hook_calls, statements


def add(tx: Tx, session_id: str, statement_ids: Sequence[str]) -> None:
    """Note statements that have just ended so."""
    if statement_ids:
        rows = [{"session_id": session_id, "statement_id": one} for one in statement_ids]
        tx.execute(insert(pending_hook_calls), rows)


def list_for_session(tx: Tx, session_id: str) -> list[PendingHookCall]:
    """A session's, oldest first."""
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
    """Those that were told of; all of a session that has ended."""
    mine = delete(pending_hook_calls).where(pending_hook_calls.c.session_id == session_id)
    if statement_ids is not None:
        mine = mine.where(pending_hook_calls.c.statement_id.in_(statement_ids))
    tx.execute(mine)
