"""The generations of the event log: one for each PostgreSQL server that the store has been on.

A server numbers its transactions by itself. After a restore from a dump, the numbers in restored
events belong to another server, and must not be compared with the numbers of new transactions.

The number of a generation after the first is the time of its start. If it were the number of the
last generation plus one, two restores of one dump would have the same number. Readers of the first
restored store would then miss events of the second.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select, text

from headrace.store.clock import clock
from headrace.store.tables import event_generations

# initdb gives each server an identifier. A dump does not contain it. A physical copy keeps it: a
# server that is recovered to an earlier time numbers its next transactions again from there, but on
# a timeline of its own.
_SERVER = text(
    "SELECT system_identifier || '/' || timeline_id"
    " FROM pg_control_system(), pg_control_checkpoint()"
)
_LAST = (
    select(event_generations.c.generation, event_generations.c.server)
    .order_by(event_generations.c.generation.desc())
    .limit(1)
)
_BEGIN_OF_NUMBERS = datetime(2026, 1, 1, tzinfo=UTC)


def start_if_restored(connection: Connection) -> None:
    """Start a new generation if another server wrote the last events; on SQLite, do nothing.

    The caller holds the lock of the migration, so that no other node runs this at the same time.
    """
    if connection.dialect.name != "postgresql":
        return
    server = connection.execute(_SERVER).scalar_one()
    last = connection.execute(_LAST).one_or_none()
    if last is not None and last.server == server:
        return
    # Readers consider the earlier generations complete: nothing in them may commit after this.
    connection.execute(text("LOCK TABLE events IN EXCLUSIVE MODE"))
    generation = 1 if last is None else _next_number(connection, last.generation)
    row = insert(event_generations).values(generation=generation, server=server, began_at=clock())
    connection.execute(row)


def _next_number(connection: Connection, last: int) -> int:
    """Return the seconds since 2026 by the clock of the server, but more than `last`."""
    now: datetime = connection.execute(select(clock())).scalar_one()
    return max(last + 1, int((now - _BEGIN_OF_NUMBERS).total_seconds()))
