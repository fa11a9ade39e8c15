"""The write locks of the statements that write to file-based tables.

A statement requests its write lock before it writes. The lock covers all locations that the
statement writes to. Appends share a location, and an overwrite locks it exclusively: a request
waits for each earlier request for the same location if one of the two is an overwrite. Requests
are never reordered, so that a granted lock stays granted and no overwrite starves. Whether a lock
is granted follows from the rows: it is stored nowhere.

A row is removed when the driver reports the success of the statement. After any other end, a task
may still create files. The row then stays until the process of the driver is confirmed gone and
another driver has removed the staging directories of the write. It blocks no other write once the
driver has reported the end, or once the process is gone. A lost driver may have moved some files of
a two-phase write into the table: then the row blocks other writes until another driver has
completed the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, insert, or_, select, update

from headrace.model.lifecycle import STATEMENT, TransactionState
from headrace.model.session import DriverLease
from headrace.model.transaction import OrphanedWrite, TableWrite, writer_name
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.statements.locks import lock_owned_statement
from headrace.store.tables import sessions, table_writes, transactions
from headrace.store.transactions import GONE_SECONDS, select_owner

# A takeover raises the epoch by one and sets `fenced_driver` until the process is confirmed gone.
# The next launch, which raises the epoch again, happens only after that.
DRIVER_GONE = or_(
    sessions.c.id.is_(None),
    sessions.c.epoch > table_writes.c.epoch + 1,
    and_(sessions.c.epoch > table_writes.c.epoch, sessions.c.fenced_driver.is_(None)),
    # Not NULL for a live session: the condition is negated.
    and_(sessions.c.ended_at.is_not(None), sessions.c.ended_at < clock(-GONE_SECONDS)),
)
IS_COMMITTING = exists().where(
    transactions.c.statement_id == table_writes.c.statement_id,
    transactions.c.state == TransactionState.COMMITTING,
)
"""Whether the files of a write are being moved into the table."""
IS_HELD = and_(~table_writes.c.released, or_(~DRIVER_GONE, IS_COMMITTING))
"""Whether a requested lock can block others."""


def request(
    tx: Tx, statement_id: str, writes: Sequence[TableWrite], identity: str, lease: DriverLease
) -> bool:
    """Request the write lock of a statement. Repeating the call changes nothing.

    Args:
        writes: The tables that the statement writes to.
        identity: Identity of their catalog.

    Returns:
        Whether the lock is requested. False if the driver does not own the statement, if the
        statement is a pure query, or if it is being cancelled.
    """
    statement = lock_owned_statement(tx, statement_id, lease)
    if statement is None or statement.is_query or statement.state not in STATEMENT.executing:
        return False
    _serialize_requests(tx, {write.location for write in writes})
    if is_requested(tx, statement_id, lease):
        return True
    _insert(tx, statement_id, writes, identity, lease)
    return True


def announce(
    tx: Tx, query_id: str, writes: Sequence[TableWrite], identity: str, lease: DriverLease
) -> None:
    """Note that a streaming query writes to tables without a lock. Repeating it changes nothing.

    The rows are those of released locks: they block no statement, and a later driver finds the
    files that this one stages.
    """
    if not is_requested(tx, query_id, lease):
        _insert(tx, query_id, writes, identity, lease, released=True)


def is_requested(tx: Tx, statement_id: str, lease: DriverLease) -> bool:
    """Return whether this attempt of a statement has requested its write lock."""
    own = select(table_writes.c.number).where(*_is_of(statement_id, lease)).limit(1)
    return tx.execute(own).first() is not None


def find_blocker(tx: Tx, statement_id: str, lease: DriverLease) -> str | None:
    """Return the statement that a requested lock waits for, or None if the lock is granted."""
    own = table_writes.alias("own")
    query = (
        select(table_writes.c.statement_id)
        .join(own, own.c.location == table_writes.c.location)
        .outerjoin(sessions, sessions.c.id == table_writes.c.session_id)
        .where(
            own.c.statement_id == statement_id,
            own.c.session_id == lease.session_id,
            own.c.epoch == lease.epoch,
            table_writes.c.statement_id != statement_id,
            table_writes.c.number < own.c.number,
            or_(own.c.overwrite, table_writes.c.overwrite),
            IS_HELD,
        )
        .order_by(table_writes.c.number)
        .limit(1)
    )
    blocker: str | None = tx.execute(query).scalar_one_or_none()
    return blocker


def release(tx: Tx, statement_id: str, lease: DriverLease, *, succeeded: bool) -> None:
    """Release the write lock of a statement whose driver reports that it has ended."""
    is_own = _is_of(statement_id, lease)
    if succeeded:
        tx.execute(delete(table_writes).where(*is_own))
        return
    # One row for each driver and table is enough to find the files. A repeated report keeps it.
    locations = select(table_writes.c.location).where(*is_own)
    earlier = delete(table_writes).where(
        table_writes.c.session_id == lease.session_id,
        table_writes.c.epoch == lease.epoch,
        table_writes.c.statement_id != statement_id,
        table_writes.c.released,
        table_writes.c.location.in_(locations),
    )
    tx.execute(earlier)
    tx.execute(update(table_writes).where(*is_own).values(released=True))


def orphaned_writes(
    tx: Tx, session_id: str, identities: Sequence[str], *, after: int = 0, limit: int
) -> list[OrphanedWrite]:
    """Return at most `limit` orphaned writes, whose drivers are gone, oldest first.

    The driver of the session clears them. Writes of other owners are not included, unless the store
    has deleted their sessions, and with them their owners.

    Args:
        identities: Only writes to tables of these catalogs.
        after: Only writes with a larger number.
    """
    query = (
        select(
            table_writes.c.number,
            table_writes.c.session_id,
            table_writes.c.epoch,
            table_writes.c.table,
        )
        .outerjoin(sessions, sessions.c.id == table_writes.c.session_id)
        .where(
            table_writes.c.identity.in_(identities),
            table_writes.c.number > after,
            _belongs_to_owner_of(session_id),
            DRIVER_GONE,
            ~IS_COMMITTING,
        )
        .order_by(table_writes.c.number)
        .limit(limit)
    )
    return [
        OrphanedWrite(
            number=row.number, writer=writer_name(row.session_id, row.epoch), table=row.table
        )
        for row in tx.execute(query)
    ]


def forget(tx: Tx, session_id: str, numbers: Collection[int], identities: Sequence[str]) -> None:
    """Delete orphaned writes, because their staging directories are removed.

    Args:
        session_id: Session of the driver that says so. Writes of other owners are kept.
        identities: Only writes to tables of these catalogs.
    """
    gone = (
        select(table_writes.c.number)
        .outerjoin(sessions, sessions.c.id == table_writes.c.session_id)
        .where(
            table_writes.c.number.in_(numbers),
            table_writes.c.identity.in_(identities),
            _belongs_to_owner_of(session_id),
            DRIVER_GONE,
            ~IS_COMMITTING,
        )
    )
    tx.execute(delete(table_writes).where(table_writes.c.number.in_(gone)))


def _belongs_to_owner_of(session_id: str) -> ColumnElement[bool]:
    """Return the condition that the session of a write has this owner, or is deleted."""
    return or_(sessions.c.id.is_(None), sessions.c.owner == select_owner(session_id))


def _insert(
    tx: Tx,
    statement_id: str,
    writes: Sequence[TableWrite],
    identity: str,
    lease: DriverLease,
    *,
    released: bool = False,
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "statement_id": statement_id,
            "session_id": lease.session_id,
            "epoch": lease.epoch,
            "identity": identity,
            "location": write.location,
            "table": write.table,
            "overwrite": write.overwrite,
            "released": released,
        }
        for write in writes
    ]
    tx.execute(insert(table_writes).values(created_at=clock()), rows)


def _is_of(statement_id: str, lease: DriverLease) -> tuple[ColumnElement[bool], ...]:
    return (
        table_writes.c.statement_id == statement_id,
        table_writes.c.session_id == lease.session_id,
        table_writes.c.epoch == lease.epoch,
    )


def _serialize_requests(tx: Tx, locations: Collection[str]) -> None:
    """Let requests for one location commit in the order of their numbers.

    A SQLite store has one writer at a time.
    """
    if tx.dialect != "postgresql":
        return
    for location in sorted(locations):
        tx.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(location, 0))))
