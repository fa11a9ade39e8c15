"""The calls of drivers that write tables without a transaction: their write locks and leftovers."""

from __future__ import annotations

from headrace.model.messages import (
    Acknowledged,
    AnnounceWrites,
    BeginWrite,
    ClearStaging,
    OrphanedWrites,
    WriteLock,
)
from headrace.model.session import DriverLease
from headrace.store import table_writes
from headrace.store.database import Database
from headrace.store.sessions.lease_renewals import load_owned_view
from headrace.store.streams import stream_queries

_MAX_ORPHANED_WRITES = 100
"""Largest number of writes in one answer to `clear_staging`."""


class WriteLocks:
    """Serves the calls `begin_write`, `announce_writes` and `clear_staging`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin_write(self, lease: DriverLease, message: BeginWrite) -> WriteLock:
        """Request the write lock of a statement, and return whether it is granted.

        Only the first call of a statement writes to the store.
        """
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            if table_writes.is_requested(tx, message.statement_id, lease):
                blocker = table_writes.find_blocker(tx, message.statement_id, lease)
                return WriteLock(granted=blocker is None, waits_for=blocker)
        with self._database.write("link.begin_write") as tx:
            applied = table_writes.request(
                tx, message.statement_id, message.writes, message.identity, lease
            )
            if not applied:
                load_owned_view(tx, lease)
                return WriteLock(granted=False)
            blocker = table_writes.find_blocker(tx, message.statement_id, lease)
        return WriteLock(granted=blocker is None, waits_for=blocker)

    def announce(self, lease: DriverLease, message: AnnounceWrites) -> Acknowledged:
        """Note the tables to which a streaming query of the driver writes."""
        with self._database.write("link.announce_writes") as tx:
            load_owned_view(tx, lease)
            query = stream_queries.get(tx, message.query_id)
            is_own = query is not None and query.session_id == lease.session_id
            if is_own:
                table_writes.announce(tx, message.query_id, message.writes, message.identity, lease)
        return Acknowledged(applied=is_own)

    def clear_staging(self, lease: DriverLease, message: ClearStaging) -> OrphanedWrites:
        """Forget the orphaned writes that the driver has cleared, and return at most 100 others."""
        if message.cleared:
            with self._database.write("link.clear_staging") as tx:
                load_owned_view(tx, lease)
                table_writes.forget(tx, lease.session_id, message.cleared, message.identities)
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            writes = table_writes.orphaned_writes(
                tx,
                lease.session_id,
                message.identities,
                after=message.after,
                limit=_MAX_ORPHANED_WRITES,
            )
        return OrphanedWrites(writes=writes)
