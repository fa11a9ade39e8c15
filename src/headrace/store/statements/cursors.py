"""Positions in results, of clients that keep theirs on the server."""

from __future__ import annotations

from sqlalchemy import insert, select, update

from headrace.model.connection import Cursor
from headrace.store.database import Tx
from headrace.store.tables import cursors as table


def find(tx: Tx, statement_id: str) -> Cursor | None:
    """Return the cursor of a statement; None if its client has read nothing."""
    query = select(table.c.start, table.c.end, table.c.sequence)
    row = tx.execute(query.where(table.c.statement_id == statement_id)).one_or_none()
    return None if row is None else Cursor(row.start, row.end, row.sequence)


def save(tx: Tx, statement_id: str, cursor: Cursor, *, previous: Cursor | None) -> bool:
    """Store the cursor of a statement, unless another node has stored one meanwhile.

    Args:
        previous: The stored cursor; None: none is stored.

    Returns:
        Whether `previous` was the stored cursor.
    """
    values = cursor._asdict()
    if previous is None:
        if find(tx, statement_id) is not None:
            return False
        tx.execute(insert(table).values(statement_id=statement_id, **values))
        return True
    stored = (table.c.start, table.c.end, table.c.sequence)
    change = update(table).where(table.c.statement_id == statement_id)
    for column, value in zip(stored, previous, strict=True):
        change = change.where(column == value)
    return tx.execute(change.values(values)).rowcount == 1
