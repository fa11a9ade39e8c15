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


def save(tx: Tx, statement_id: str, cursor: Cursor) -> None:
    """Store the cursor of a statement."""
    values = cursor._asdict()
    change = update(table).where(table.c.statement_id == statement_id).values(values)
    if not tx.execute(change).rowcount:
        tx.execute(insert(table).values(statement_id=statement_id, **values))
