"""The generations of the event log: one for each PostgreSQL server that the store has been on.

A server numbers its transactions by itself. After a restore from a dump, the numbers in restored
events belong to another server, and must not be compared with the numbers of new transactions.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, text

from headrace.store.clock import clock
from headrace.store.tables import event_generations

# initdb gives each server an identifier. A physical copy of the server keeps it, together with the
# numbers of its transactions. A dump contains neither.
_SERVER = text("SELECT system_identifier::text FROM pg_control_system()")
_LAST = (
    select(event_generations.c.generation, event_generations.c.server)
    .order_by(event_generations.c.generation.desc())
    .limit(1)
)


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
    generation = 1 if last is None else last.generation + 1
    row = insert(event_generations).values(generation=generation, server=server, began_at=clock())
    connection.execute(row)
