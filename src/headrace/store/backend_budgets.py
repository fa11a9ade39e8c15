"""The rate at which all nodes of a store together may ask a backend about drivers.

One row for each backend holds the time of its next free slot. A short burst is allowed after a
pause.
"""

from __future__ import annotations

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import backend_budgets as table

_BURST_SECONDS = 1.0
"""Slots of this time can be taken at once after a pause."""


def take_slot(tx: Tx, backend: str, per_second: float) -> float:
    """Take the next slot of a backend, and return the seconds until it begins.

    Args:
        per_second: Number of slots in a second.
    """
    query = select(seconds_since(table.c.next_at)).where(table.c.backend == backend)
    age = tx.execute(query.with_for_update()).scalar()
    begins_in = -_BURST_SECONDS if age is None else max(-float(age), -_BURST_SECONDS)
    next_at = clock(begins_in + 1 / per_second)
    if age is not None:
        tx.execute(update(table).where(table.c.backend == backend).values(next_at=next_at))
        return max(0.0, begins_in)
    try:
        # After an error, PostgreSQL continues a transaction from a savepoint only.
        with tx.connection.begin_nested():
            tx.execute(insert(table).values(backend=backend, next_at=next_at))
    except IntegrityError:
        # Another node has taken the first slot just now.
        return take_slot(tx, backend, per_second)
    return 0.0
