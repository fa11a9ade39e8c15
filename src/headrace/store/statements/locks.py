"""Row locks on statements.

A driver names the statements of its messages itself. A lock for a driver therefore takes session
and epoch, and the statement, its session and the lease must agree.

A transaction locks a statement before it reads the state that it acts on. No other transaction can
change the statement until the first one ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, literal, or_, select

from headrace.model.lifecycle import StatementState
from headrace.model.session import DriverLease, SessionKind
from headrace.store.database import Tx
from headrace.store.notifications import NO_PROCESS, statement_topic
from headrace.store.tables import sessions, statements


class LockedStatement(NamedTuple):
    """A statement that no other transaction can change until this one ends."""

    state: StatementState
    session_id: str
    is_query: bool
    command: str | None
    """First words of a statement of Headrace's own, for example `CREATE STREAM`."""
    awaited_by: str | None
    """Process that waits for the end of the statement, or `*`: several wait."""
    connection_id: str | None
    """Connection in whose Spark session the statement runs."""
    may_be_followed: bool
    """Whether the driver of the session may have something to do when this statement has ended.

    False only for a driver that owns the last statement of its session: statements are claimed in
    the order of their ordinals, so that no other one can wait. The driver of a batch session then
    closes, so that the value is True. It is also True if the lock was not taken for a driver.
    """


# SQLAlchemy takes longer to build a query than SQLite takes to run it: build each once.
_COLUMNS = [
    statements.c.state,
    statements.c.session_id,
    statements.c.is_query,
    statements.c.command,
    statements.c.awaited_by,
    statements.c.connection_id,
]
_MAY_BE_FOLLOWED = or_(
    statements.c.ordinal < sessions.c.next_ordinal - 1, sessions.c.kind == SessionKind.BATCH
).label("may_be_followed")
_LOCK = (
    select(*_COLUMNS, literal(value=True).label("may_be_followed"))
    .where(statements.c.id == bindparam("statement"))
    .with_for_update()
)
# PostgreSQL locks the rows in the order of FROM: the session before the statement.
_LOCK_OWNED = (
    select(*_COLUMNS, _MAY_BE_FOLLOWED)
    .join_from(sessions, statements, sessions.c.id == statements.c.session_id)
    .where(
        statements.c.id == bindparam("statement"),
        statements.c.epoch == bindparam("lease_epoch"),
        sessions.c.id == bindparam("session"),
        sessions.c.epoch == bindparam("lease_epoch"),
        sessions.c.ended_at.is_(None),
    )
    .with_for_update()
)


def lock_statement(tx: Tx, statement_id: str) -> LockedStatement | None:
    """Lock a statement until the transaction ends. Return None if there is no such statement."""
    return _lock(tx, _LOCK, statement_id, {})


def lock_owned_statement(tx: Tx, statement_id: str, lease: DriverLease) -> LockedStatement | None:
    """Lock a statement that the given driver still owns.

    Args:
        lease: Session and epoch of the calling driver, from its token.

    Returns:
        State and session of the statement. None if the statement belongs to another session, if
        the session has ended, or if a takeover has raised the epoch of either.
    """
    names = {"session": lease.session_id, "lease_epoch": lease.epoch}
    return _lock(tx, _LOCK_OWNED, statement_id, names)


def lock_owned_state(tx: Tx, statement_id: str, lease: DriverLease) -> StatementState | None:
    """Lock a statement as `lock_owned_statement` does. Return its state alone, or None."""
    statement = lock_owned_statement(tx, statement_id, lease)
    return None if statement is None else statement.state


def _lock(
    tx: Tx, query: Select[Any], statement_id: str, names: dict[str, Any]
) -> LockedStatement | None:
    rows = tx.execute(query, {"statement": statement_id, **names}).mappings()
    row = rows.one_or_none()
    if row is None:
        return None
    statement = LockedStatement(**row)
    tx.note_waiter(statement_topic(statement_id), statement.awaited_by or NO_PROCESS)
    return statement
