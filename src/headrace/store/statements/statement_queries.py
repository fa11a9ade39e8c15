"""SQL of the state transitions of statements.

SQLAlchemy takes longer to build a query than SQLite takes to run it: each query is built once.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Float,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.store.clock import clock
from headrace.store.tables import sessions, statements

_LIVE = statements.c.ended_at.is_(None)

END_COLUMNS = (
    statements.c.kind,
    statements.c.created_at,
    statements.c.waiting_since,
    statements.c.launched_at,
    statements.c.started_at,
    statements.c.ended_at,
)
"""Columns that an update of the state returns."""

# The lock serialises the claims of one session, and makes a takeover wait for a claim.
LOCK_CLAIMING_SESSION = (
    select(
        sessions.c.owner,
        sessions.c.kind,
        sessions.c.parallelism,
        sessions.c.pool,
        sessions.c.results_location,
    )
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.epoch == bindparam("lease_epoch"),
        sessions.c.state == SessionState.RUNNING,
    )
    .with_for_update()
)


def _values_on_entry(
    target: StatementState, *, has_run: bool = False, has_progress: bool = False
) -> dict[str, Any]:
    """Return the columns that change when a statement enters a state. See `update_state`."""
    values: dict[str, Any] = {"state": target, "failure": bindparam("new_failure")}
    if target is StatementState.LAUNCHED:
        values["launched_at"] = clock()
        values["epoch"] = bindparam("lease_epoch")
        values["attempts"] = statements.c.attempts + 1
    elif target is StatementState.WAITING:
        values.update(launched_at=None, started_at=None, epoch=None, progress=None)
        values["waiting_since"] = clock()
        values["may_have_effects"] = True
    elif has_run:
        values["started_at"] = func.coalesce(statements.c.started_at, _reported_start())
    elif target in {StatementState.RUNNING, StatementState.SUCCESS}:
        values["started_at"] = func.coalesce(statements.c.started_at, clock())
    if target in STATEMENT.terminal:
        values["ended_at"] = clock()
    if has_progress:
        values["progress"] = bindparam("last_progress")
    return values


def _reported_start() -> ColumnElement[datetime]:
    """Return the start that a driver reports by its age, but no time before the claim."""
    start = clock(bindparam("offset", type_=Float()))
    return case((start < statements.c.launched_at, statements.c.launched_at), else_=start)


@cache
def update_state(
    target: StatementState, *, has_run: bool, has_progress: bool
) -> ReturningUpdate[Any]:
    """Return the update that changes the state from the parameter `source` to the target.

    The update changes no row if the statement is in another state. It returns END_COLUMNS.

    Args:
        has_run: Whether the parameter `offset` is the start of the statement, in seconds relative
            to now.
        has_progress: Whether the parameter `last_progress` is the progress after the last task.
    """
    return (
        update(statements)
        .where(statements.c.id == bindparam("statement"), statements.c.state == bindparam("source"))
        .values(_values_on_entry(target, has_run=has_run, has_progress=has_progress))
        .returning(*END_COLUMNS)
    )


def is_running_alone(table: Any) -> ColumnElement[bool]:
    """Return whether a statement in flight runs alone in its session, unless that is a pool.

    Its claim has counted the attempt, see `will_run_alone`.
    """
    return or_(table.c.is_query.is_(False), table.c.attempts > 1)


def will_run_alone(table: Any) -> ColumnElement[bool]:
    """Return whether a waiting statement must run alone in its session, unless that is a pool.

    `Statement.will_run_alone` says it of a record.
    """
    return or_(table.c.is_query.is_(False), table.c.attempts > 0)


def queue_order(table: Any) -> tuple[ColumnElement[Any], ...]:
    """Return the order in which a driver claims the waiting statements of a session."""
    return (table.c.ordinal,)


def is_before(first: Any, second: Any) -> ColumnElement[bool]:
    """Return whether a waiting statement comes before another one in that order."""
    condition: ColumnElement[bool] = first.c.ordinal < second.c.ordinal
    return condition


def is_connection_busy(table: Any) -> ColumnElement[bool]:
    """Return whether a waiting statement waits for an earlier one of its connection.

    The statements behind it in the queue do not wait for it.
    """
    earlier = statements.alias("earlier")
    return (
        exists()
        .where(
            earlier.c.connection_id == table.c.connection_id,
            earlier.c.ended_at.is_(None),
            earlier.c.state != StatementState.WAITING,
        )
        .correlate(table)
    )


@cache
def claim_first() -> ReturningUpdate[Any]:
    """Return the update that claims the first statement in a session's queue, if it may run."""
    in_session = (statements.c.session_id == bindparam("session"), _LIVE)
    other = statements.alias("other")
    is_ready = ~is_connection_busy(statements)
    first = (
        select(statements.c.id)
        .where(*in_session, statements.c.state == StatementState.WAITING, is_ready)
        .where(
            or_(
                bindparam("opens_connections", type_=Boolean()),
                statements.c.connection_id.is_(None),
            )
        )
        .order_by(*queue_order(statements))
        .limit(1)
    )
    in_flight = (
        other.c.session_id == bindparam("session"),
        other.c.ended_at.is_(None),
        other.c.state.in_(sorted(STATEMENT.in_flight)),
    )
    nothing_in_flight = ~exists().where(*in_flight)
    nothing_alone_in_flight = ~exists().where(*in_flight, is_running_alone(other))
    count = select(func.count()).select_from(other).where(*in_flight).scalar_subquery()
    # The statements of a pool session do not share a Spark session.
    beside_others = and_(
        or_(
            bindparam("is_pool", type_=Boolean()),
            and_(~will_run_alone(statements), nothing_alone_in_flight),
        ),
        count < bindparam("max_in_flight"),
    )
    claim = update(statements).where(
        statements.c.id == first.scalar_subquery(),
        statements.c.state == StatementState.WAITING,
        # A driver has the rights of the owner of its session, and acts for no other owner.
        statements.c.owner == bindparam("session_owner"),
        # A node executes local statements. Later statements of the session wait for them.
        statements.c.kind != SessionKind.LOCAL,
        or_(nothing_in_flight, beside_others),
    )
    values = {
        **_values_on_entry(StatementState.LAUNCHED),
        "failure": None,
        "may_have_effects": bindparam("has_effects", type_=Boolean()),
    }
    return claim.values(values).returning(*statements.c)
