"""Statements that ended while their driver was lost: the hooks there have not heard of it.

The session's next driver tells them, before it says hello. With the session ends their list.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select

from headrace.model.untold import Untold
from headrace.store.database import Tx
from headrace.store.tables import statements, untold


def keep(tx: Tx, session_id: str, statement_ids: Sequence[str]) -> None:
    """Note statements that have just ended so."""
    if statement_ids:
        rows = [{"session_id": session_id, "statement_id": one} for one in statement_ids]
        tx.execute(insert(untold), rows)


def of_session(tx: Tx, session_id: str) -> list[Untold]:
    """A session's, oldest first."""
    query = (
        select(
            statements.c.id.label("statement_id"),
            statements.c.text,
            statements.c.attempts.label("attempt"),
            statements.c.state,
            statements.c.failure,
        )
        .join_from(untold, statements, statements.c.id == untold.c.statement_id)
        .where(untold.c.session_id == session_id)
        .order_by(statements.c.ordinal)
    )
    return [Untold(**row) for row in tx.execute(query).mappings()]


def forget(tx: Tx, session_id: str, statement_ids: Sequence[str] | None = None) -> None:
    """Those that were told of; all of a session that has ended."""
    mine = delete(untold).where(untold.c.session_id == session_id)
    if statement_ids is not None:
        mine = mine.where(untold.c.statement_id.in_(statement_ids))
    tx.execute(mine)
