"""What statements may wait for: one query for waiting statements, and one for running ones.

The queries run while a user looks at statements. They read live rows only, by their indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, func, literal, or_, select

from headrace.model.lifecycle import STATEMENT, SessionState, StatementState, TransactionState
from headrace.model.session import SessionKind
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.statements.statement_queries import (
    is_before,
    is_connection_busy,
    is_running_alone,
)
from headrace.store.table_writes import IS_HELD
from headrace.store.tables import sessions, statements, table_writes, transactions

_other = statements.alias("other")
_IN_SESSION = (_other.c.session_id == statements.c.session_id, _other.c.ended_at.is_(None))
_IS_IN_FLIGHT = _other.c.state.in_(sorted(STATEMENT.in_flight))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """What a waiting statement may wait for."""

    before: int
    """Waiting statements of its session that are claimed before it, unless it waits for another
    statement of its connection."""
    connection_blocker: str | None
    """The statement of its connection that it waits for."""
    session_state: SessionState
    profile: str
    """Profile of the driver of the session."""
    launches_before: int
    """Older sessions of the profile whose drivers are not up; 0 if its own launch is claimed."""
    first_launch: datetime | None
    """The earliest launch of them."""
    now: datetime
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
    """A statement in flight of its session that runs alone."""
    owner_in_flight: int
    """Statements in flight of its owner; 0 if they are not counted."""
    all_in_flight: int
    """Statements in flight of all owners; 0 if they are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """What the writes of a statement in flight wait for."""

    writer: str | None
    """The statement before it that has the write lock of its table."""
    writer_owner: str | None
    table: str | None
    """That table."""
    publisher: str | None
    """The statement that publishes a table of the same name, or at the same location."""
    publisher_owner: str | None
    target: str | None
    """That table."""
    since: datetime | None
    """When the statement requested its write lock."""


def read_queues(
    tx: Tx, statement_ids: Sequence[str], *, counts_users: bool
) -> dict[str, QueueView]:
    """Return what waiting statements may wait for, by id, without those that wait no more.

    Args:
        counts_users: Whether to count the statements in flight of all sessions.
    """
    views = {}
    query = _select_queues(counts_users=counts_users)
    for row in tx.execute(query, {"waiting": statement_ids}).mappings():
        values = dict(row)
        id_, is_ending = values.pop("id"), values.pop("fenced_driver") is not None
        views[id_] = QueueView(is_ending=is_ending, **values)
    return views


def read_locks(tx: Tx, statement_ids: Sequence[str]) -> dict[str, LockView]:
    """Return what the writes of statements wait for, by id, of those that are in flight."""
    views = {}
    for row in tx.execute(_LOCKS, {"writing": statement_ids}).mappings():
        values = dict(row)
        id_ = values.pop("id")
        views[id_] = LockView(**values)
    return views


@cache
def _select_queues(*, counts_users: bool) -> Select[Any]:
    # Those whose connection is busy do not hold up the others.
    before = (
        *_IN_SESSION,
        _other.c.state == StatementState.WAITING,
        or_(
            _other.c.connection_id == statements.c.connection_id,
            ~is_connection_busy(_other),
        ),
    )
    connection_blocker = (
        select(func.min(_other.c.id))
        .where(
            _other.c.connection_id == statements.c.connection_id,
            _other.c.ended_at.is_(None),
            _other.c.id != statements.c.id,
            or_(_other.c.state != StatementState.WAITING, is_before(_other, statements)),
        )
        .correlate(statements)
        .scalar_subquery()
    )
    exclusive = (
        select(_other.c.id)
        .where(*_IN_SESSION, _IS_IN_FLIGHT, is_running_alone(_other))
        .order_by(_other.c.ordinal)
        .limit(1)
        .scalar_subquery()
    )
    in_flight = (_other.c.ended_at.is_(None), _IS_IN_FLIGHT)
    of_owner = _count(*in_flight, _other.c.owner == statements.c.owner)
    return (
        select(
            statements.c.id,
            _count(*before, is_before(_other, statements)).label("before"),
            connection_blocker.label("connection_blocker"),
            sessions.c.state.label("session_state"),
            sessions.c.profile,
            case((_HAS_NO_LAUNCH, func.coalesce(_of_launches(func.count()), 0)), else_=0).label(
                "launches_before"
            ),
            case((_HAS_NO_LAUNCH, _of_launches(func.min(_launching.c.last_update_time)))).label(
                "first_launch"
            ),
            clock().label("now"),
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
            statements.c.id.in_(bindparam("waiting", expanding=True)),
            statements.c.ended_at.is_(None),
            statements.c.state == StatementState.WAITING,
        )
    )


_launching = sessions.alias("launching")
_HAS_NO_LAUNCH = sessions.c.state == SessionState.NOT_STARTED


def _of_launches(column: Any) -> Any:
    """Return a value of the launches of a profile that are before that of a session."""
    return (
        select(column)
        .select_from(_launching)
        .where(
            _launching.c.ended_at.is_(None),
            _launching.c.state.in_(sorted({SessionState.NOT_STARTED, SessionState.STARTING})),
            _launching.c.profile == sessions.c.profile,
            _launching.c.kind != SessionKind.LOCAL,
            _launching.c.id < sessions.c.id,
        )
        .correlate(sessions)
        .scalar_subquery()
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


def _owner_of(statement_id: Any) -> Any:
    return (
        select(_other.c.owner)
        .where(_other.c.id == statement_id)
        .correlate(statements)
        .scalar_subquery()
    )


_WRITER = _first_blocking_write(table_writes.c.statement_id)
_PUBLISHER = _publishing(transactions.c.statement_id)
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
    statements.c.id,
    _WRITER.label("writer"),
    _owner_of(_WRITER).label("writer_owner"),
    _first_blocking_write(table_writes.c.table).label("table"),
    _PUBLISHER.label("publisher"),
    _owner_of(_PUBLISHER).label("publisher_owner"),
    _publishing(transactions.c.target).label("target"),
    _own_request.label("since"),
).where(
    statements.c.id.in_(bindparam("writing", expanding=True)),
    statements.c.ended_at.is_(None),
    statements.c.state.in_(sorted(STATEMENT.executing)),
)
