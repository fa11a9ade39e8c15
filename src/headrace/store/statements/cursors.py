"""Positions in results, of clients that keep theirs on the server."""

from __future__ import annotations

from sqlalchemy import select, update

from headrace.model.connection import Cursor
from headrace.store.database import Tx
from headrace.store.tables import cursors as table
from headrace.store.upserts import insert_into


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
        row = insert_into(tx, table).values(statement_id=statement_id, **values)
        new = row.on_conflict_do_nothing().returning(table.c.statement_id)
        return tx.execute(new).one_or_none() is not None
    stored = (table.c.start, table.c.end, table.c.sequence)
    change = update(table).where(table.c.statement_id == statement_id)
    for column, value in zip(stored, previous, strict=True):
        change = change.where(column == value)
    return tx.execute(change.values(values)).rowcount == 1
