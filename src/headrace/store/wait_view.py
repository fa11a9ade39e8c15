"""What a statement may wait for: one query for a waiting statement, and one for a running one.

The queries run while a user looks at a statement. They read live rows only, by their indexes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, literal, or_, select

from headrace.model.lifecycle import (
    IN_FLIGHT,
    SessionState,
    StatementState,
    TransactionState,
)
from headrace.store.database import Tx
from headrace.store.table_writes import IS_HELD
from headrace.store.tables import sessions, statements, table_writes, transactions

_other = statements.alias("other")
_IN_SESSION = (_other.c.session_id == statements.c.session_id, _other.c.ended_at.is_(None))
_IS_IN_FLIGHT = _other.c.state.in_(sorted(IN_FLIGHT))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """What a waiting statement may wait for."""

    before: int
    """Waiting statements of its session that come before it."""
    session_state: SessionState
    created_at: datetime
    """Creation of the session."""
    last_update_time: datetime | None
    """Last launch, `hello` or lease renewal of the driver."""
    starts: int
    """Drivers started for the session since a driver last reported `hello`."""
    is_ending: bool
    """Whether the process of a lost driver is not confirmed gone yet."""
    pool: bool
    parallelism: int
    in_flight: int
    """Statements in flight of its session."""
    exclusive: str | None
    """A statement in flight of its session that is no pure query."""
    owner_in_flight: int
    """Statements in flight of its owner; 0 if they are not counted."""
    all_in_flight: int
    """Statements in flight of all owners; 0 if they are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """What the writes of a statement in flight wait for."""

    writer: str | None
    """The statement before it that has the write lock of its table."""
    table: str | None
    """That table."""
    publisher: str | None
    """The statement that publishes a table of the same name, or at the same location."""
    target: str | None
    """That table."""
    since: datetime | None
    """When the statement requested its write lock."""


def read_queue(tx: Tx, statement_id: str, *, counts_users: bool) -> QueueView | None:
    """Return what a waiting statement may wait for; None if it waits no more.

    Args:
        counts_users: Whether to count the statements in flight of all sessions.
    """
    query = _select_queue(counts_users=counts_users)
    row = tx.execute(query, {"waiting": statement_id}).mappings().one_or_none()
    if row is None:
        return None
    values = dict(row)
    return QueueView(is_ending=values.pop("fenced_driver") is not None, **values)


def read_locks(tx: Tx, statement_id: str) -> LockView | None:
    """Return what the writes of a statement in flight wait for; None if it is not in flight."""
    row = tx.execute(_LOCKS, {"writing": statement_id}).mappings().one_or_none()
    return None if row is None else LockView(**row)


@cache
def _select_queue(*, counts_users: bool) -> Select[Any]:
    before = (*_IN_SESSION, _other.c.state == StatementState.WAITING)
    exclusive = (
        select(_other.c.id)
        .where(*_IN_SESSION, _IS_IN_FLIGHT, _other.c.is_query.is_(False))
        .order_by(_other.c.ordinal)
        .limit(1)
        .scalar_subquery()
    )
    in_flight = (_other.c.ended_at.is_(None), _IS_IN_FLIGHT)
    of_owner = _count(*in_flight, _other.c.owner == statements.c.owner)
    return (
        select(
            _count(*before, _other.c.ordinal < statements.c.ordinal).label("before"),
            sessions.c.state.label("session_state"),
            sessions.c.created_at,
            sessions.c.last_update_time,
            sessions.c.starts,
            sessions.c.fenced_driver,
            sessions.c.pool,
            sessions.c.parallelism,
            _count(*_IN_SESSION, _IS_IN_FLIGHT).label("in_flight"),
            exclusive.label("exclusive"),
            (of_owner if counts_users else literal(0)).label("owner_in_flight"),
            (_count(*in_flight) if counts_users else literal(0)).label("all_in_flight"),
        )
        .join_from(statements, sessions, sessions.c.id == statements.c.session_id)
        .where(
            statements.c.id == bindparam("waiting"),
            statements.c.ended_at.is_(None),
            statements.c.state == StatementState.WAITING,
        )
    )


def _count(*conditions: ColumnElement[bool]) -> Any:
    return (
        select(func.count())
        .select_from(_other)
        .where(*conditions)
        .correlate(statements)
        .scalar_subquery()
    )


def _first_blocking_write(column: Any) -> Any:
    """Return the column of the oldest write that a requested write lock waits for."""
    own = table_writes.alias("own_write")
    return (
        select(column)
        .join(own, own.c.location == table_writes.c.location)
        .outerjoin(sessions, sessions.c.id == table_writes.c.session_id)
        .where(
            own.c.statement_id == statements.c.id,
            own.c.epoch == statements.c.epoch,
            ~own.c.released,
            table_writes.c.statement_id != statements.c.id,
            table_writes.c.number < own.c.number,
            or_(own.c.overwrite, table_writes.c.overwrite),
            IS_HELD,
        )
        .order_by(table_writes.c.number)
        .limit(1)
        .correlate(statements)
        .scalar_subquery()
    )


def _publishing(column: Any) -> Any:
    """Return the column of the transaction that another transaction cannot publish beside."""
    own = transactions.alias("own_transaction")
    return (
        select(column)
        .join(own, own.c.identity == transactions.c.identity)
        .where(
            own.c.statement_id == statements.c.id,
            own.c.ended_at.is_(None),
            own.c.state == TransactionState.BEGUN,
            transactions.c.state == TransactionState.COMMITTING,
            transactions.c.statement_id != statements.c.id,
            or_(
                transactions.c.target == own.c.target,
                and_(own.c.location.is_not(None), transactions.c.location == own.c.location),
            ),
        )
        .order_by(transactions.c.id)
        .limit(1)
        .correlate(statements)
        .scalar_subquery()
    )


_own_request = (
    select(func.min(table_writes.c.created_at))
    .where(
        table_writes.c.statement_id == statements.c.id,
        table_writes.c.epoch == statements.c.epoch,
    )
    .correlate(statements)
    .scalar_subquery()
)
_LOCKS = select(
    _first_blocking_write(table_writes.c.statement_id).label("writer"),
    _first_blocking_write(table_writes.c.table).label("table"),
    _publishing(transactions.c.statement_id).label("publisher"),
    _publishing(transactions.c.target).label("target"),
    _own_request.label("since"),
).where(
    statements.c.id == bindparam("writing"),
    statements.c.ended_at.is_(None),
    statements.c.state.in_([StatementState.LAUNCHED, StatementState.RUNNING]),
)
